-- Takes items off in-progress lists: the rows of a settlement, see settle.lua.
local FIXED, arguments, refusal, make_large_rows = ...

-- Takes an item off its list. Returns 1, 0 when it was not there, or the error.
local function take_off(list, from, raw)
  if not list then return 1 end
  local removed = redis.pcall('LREM', list, from, raw)
  if type(removed) == 'table' then return removed.err .. ' (key ' .. list .. ')' end
  return removed == 0 and 0 or 1
end

-- Removes the items of a row by their places, all or none. Each entry at such a place must have the bytes of its item:
-- else the list is not as the process believes. One LTRIM cuts off the end of the list, and the entries that stay are
-- appended again. That writes less to replicas and to the file than an LREM with the payload of each item.
local function cut(list, places, first)
  local wanted, staying = first, {}
  local last = redis.pcall('LRANGE', list, -#places, -1)
  if last.err or #last < #places then return false end
  for i, entry in ipairs(last) do
    if string.byte(places, i) == 0 then
      staying[#staying + 1] = entry
    elseif entry == arguments[wanted] then
      wanted = wanted + 1
    else
      return false
    end
  end
  if #staying > 0 and refusal('front') then return false end
  if redis.pcall('LTRIM', list, '0', -#places - 1).err then return false end
  if #staying > 0 then redis.call('RPUSH', list, unpack(staying)) end
  return true
end

local UNCOUNTED = {none = true, front = true, back = true, schedule = true, park = true, drop = true}
-- The state of a settlement: how many items were met, how many of them count as processed and as failed, whether one is dead,
-- the answer of the script, the numbers of the items that were not settled, and the errors for which items of rows stay, by
-- their numbers.
local settled = {at = 0, processed = 0, failed = 0, buried = false, answer = {}, stays = {}, refused = {}}

local function count_one(what, result)
  local at, answer = settled.at + 1, settled.answer
  settled.at = at
  if result ~= 1 then
    answer[#answer + 1], answer[#answer + 2], settled.stays[at] = at, result, true
  elseif not UNCOUNTED[what] then
    settled.processed = settled.processed + 1
    if what ~= 'remove' then settled.failed = settled.failed + 1 end
    if what == 'dead' then settled.buried = true end
  end
end

-- Ends the items of a row. Returns where the next row or item begins.
local function end_row(i)
  local what, from, how, count = arguments[i], arguments[i + 2], arguments[i + 3], tonumber(arguments[i + 4])
  local list = arguments[i + 1] ~= '0' and KEYS[FIXED + arguments[i + 1]]
  local first, last = i + 5, i + 4 + count
  local places
  if next(settled.refused) then
    for j = first, last do count_one('remove', settled.refused[settled.at + 1] or take_off(list, from, arguments[j])) end
    return last + 1
  end
  if what == 'large' then places = make_large_rows()(list, from, first, last, how) end
  if places then
    for _, place in ipairs(places) do count_one('remove', place and 1 or 0) end
  elseif what == 'row' and how ~= '' and cut(list, how, first) then
    settled.at, settled.processed = settled.at + count, settled.processed + count
  else
    for j = first, last do count_one('remove', take_off(list, from, arguments[j])) end
  end
  return last + 1
end

return {settled = settled, take_off = take_off, count_one = count_one, end_row = end_row}
