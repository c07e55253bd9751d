-- Included by settle.lua and settle_rows.lua: their keys and arguments, the receipt, and the items of rows.
local DEAD, QUEUES, LINES, OUTBOXES, RECEIPT, NOTHING = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[9], KEYS[10]
local FIXED = 10
local arguments = ARGV
local number, dead_limit, dead_age, day_life, receipt_life = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- The receipt has the number of the settler's last batch. The same number: the batch is done, its reply was lost, and the
-- settler sends it again. A higher one: this copy of an older batch was long on its way, and nobody waits for its answer.
-- To do either could remove an item of the same bytes that was fetched later. The numbers are compared as numbers: '9' is
-- behind '10' as text.
local last = redis.call('GET', RECEIPT)
if last then
  local head = string.find(last, ':', 1, true)
  local ahead = tonumber(string.sub(last, 1, head - 1)) - number
  if ahead == 0 then return cmsgpack.unpack(string.sub(last, head + 1)) end
  if ahead > 0 then return {err = 'late: the settler has settled a later batch'} end
end

-- A write that changes nothing: a server that cannot write now (a replica after a failover) fails here, for the whole
-- batch. Below, the script would return an error for each item, and the connection to that server would be kept.
redis.call('EXPIRE', RECEIPT, receipt_life)

-- An item is taken off its list before it is written to its new place. So the script first tries whether the access
-- rules allow the commands for the new place and for the way back into the list: it calls them on a key that is
-- deleted again. One try is enough for all items with the same step. Items that are only removed need none.
local function find_refusal(what)
  local cleaned = redis.pcall('LREM', NOTHING, '0', '')
  if type(cleaned) == 'table' then return cleaned.err end
  local to_set = what == 'retry' or what == 'schedule' or what == 'dead'
  local replies = {
    redis.pcall('SET', NOTHING, '', 'XX'), -- the receipt: without it a repeated batch may remove an equal item
    to_set and redis.pcall('ZADD', NOTHING, 'XX', '0', ''),
    redis.pcall('RPUSH', NOTHING, ''), -- for 'front', and for the way back into the list
    (what == 'back' or what == 'park') and redis.pcall('LPUSH', NOTHING, ''),
  }
  redis.call('LREM', NOTHING, '0', '')
  for _, reply in ipairs(replies) do
    if type(reply) == 'table' and reply.err then return reply.err end
  end
  return false
end

local refusals = {}
local function refusal(what)
  if what == 'remove' or what == 'fail' or what == 'drop' or what == 'none' then return false end
  if refusals[what] == nil then refusals[what] = find_refusal(what) end
  return refusals[what]
end

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
local answer, at, processed, failed, buried = {}, 0, 0, 0, false
local stays = {} -- the numbers of the items that were not settled
local refused = {} -- the errors for which items of rows stay, by their numbers
local function count_one(what, result)
  at = at + 1
  if result ~= 1 then
    answer[#answer + 1], answer[#answer + 2], stays[at] = at, result, true
  elseif not UNCOUNTED[what] then
    processed = processed + 1
    if what ~= 'remove' then failed = failed + 1 end
    if what == 'dead' then buried = true end
  end
end

-- Finds large items by LPOS: Lua copies every byte of an entry that it reads. Returns the place of each item (false: it
-- is not in the list), how many places there are, and the first of them. Returns nothing where LPOS is refused, and for
-- equal items, which have the same place.
local function find(list, from, first, last)
  local places, taken, count, head = {}, {}, 0, math.huge
  for j = first, last do
    local place = redis.pcall('LPOS', list, arguments[j], 'RANK', from)
    if type(place) == 'table' or taken[place] then return end
    places[#places + 1] = place
    if place then taken[place], count, head = true, count + 1, math.min(head, place) end
  end
  return places, count, head
end

-- Removes the found entries. LTRIM cuts them off the end of the list, or they are replaced by marks, which LREM removes:
-- so their payloads are not written to replicas and to the file once more. False when it is refused; then nothing was
-- done.
local function remove(list, places, count, head, mark)
  if count == 0 then return true end
  if head + count == redis.call('LLEN', list) then return not redis.pcall('LTRIM', list, '0', -count - 1).err end
  if type(redis.pcall('LREM', NOTHING, '0', '')) == 'table' then return false end
  for _, place in ipairs(places) do
    if place and redis.pcall('LSET', list, place, mark).err then return false end
  end
  redis.call('LREM', list, '0', mark)
  return true
end

-- Ends the items of a row. Returns where the next row or item begins.
local function end_row(i)
  local what, from, how, count = arguments[i], arguments[i + 2], arguments[i + 3], tonumber(arguments[i + 4])
  local list = arguments[i + 1] ~= '0' and KEYS[FIXED + arguments[i + 1]]
  local first, last = i + 5, i + 4 + count
  local places, found, head
  if next(refused) then
    for j = first, last do count_one('remove', refused[at + 1] or take_off(list, from, arguments[j])) end
    return last + 1
  end
  if what == 'large' then places, found, head = find(list, from, first, last) end
  if places and remove(list, places, found, head, how) then
    for _, place in ipairs(places) do count_one('remove', place and 1 or 0) end
  elseif what == 'row' and how ~= '' and cut(list, how, first) then
    at, processed = at + count, processed + count
  else
    for j = first, last do count_one('remove', take_off(list, from, arguments[j])) end
  end
  return last + 1
end
