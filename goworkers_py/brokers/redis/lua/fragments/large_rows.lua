-- Takes large items off an in-progress list without a copy of their bytes, see rows.lua.
local arguments, NOTHING = ...

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

-- Returns the place of each item (false: it is not in the list), or nothing where nothing was done.
return function(list, from, first, last, mark)
  local places, count, head = find(list, from, first, last)
  return places and remove(list, places, count, head, mark) and places
end
