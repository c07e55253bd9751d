-- Settles deliveries: each item is taken off its in-progress list and put into its new place, or stays.
-- An item that is not in its in-progress list was recovered by another process, and is left alone.
-- KEYS: dead, queues, lines, outboxes, processed, failed, processed today, failed today, receipt, a key that never exists, then
--       in-progress lists, goals of items and keys of effects, in any order
-- ARGV: batch number, dead limit, dead age, life of the day's counters, life of the receipt,
--       then rows and items, each beginning with a word, the number of a list (0: the item is in no list here), and the
--       end of the list to look from (1 the newest, -1 the oldest):
--       'row', a row of items that are only removed: their places (one byte for each of the last entries of the list, the
--         newest first: 1 for an item; '' when not known), how many items, their raw payloads in the same order
--       'large', the same for large payloads: a mark that is no job's payload, how many items, their raw payloads
--       'notes', the effects 'note' of items of the rows before; without a list and its end: state, life, reason, class,
--         the numbers of the items from 1 on (two bytes for each), the number of the record of the first one (the others
--         follow), how many names of fields, the names, and for each item the values
--       'ends', items of the rows before that have succeeded in a batch; without a list and its end: the numbers of the
--         items, as above, and the place of the batch, see batch.lua
--       the step of one item: its raw payload, the number of its goal (0: none), the goal's name, score, what is put
--         there ('': the raw payload), how many arguments its effects have, and these, see effects.lua
-- Answer: for each item that was not settled its number, and 0 when it was not in its list, or the text of the error
--       for which it stays there
-- include note.lua
-- include sidekiq_status.lua
-- include lock.lua
local DEAD, QUEUES, LINES, OUTBOXES, RECEIPT, NOTHING = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[9], KEYS[10]
local FIXED = 10
local arguments = ARGV
-- include push.lua
local number, dead_limit, dead_age, day_life, receipt_life = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- The receipt has the number of this batch: the batch is done, its reply was lost, and the settler sends it again. To
-- do it again could remove an item of the same bytes that was fetched later.
local last = redis.call('GET', RECEIPT)
if last then
  local head = number .. ':'
  if string.sub(last, 1, #head) == head then return cmsgpack.unpack(string.sub(last, #head + 1)) end
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

-- An item that does not only leave goes to its goal. Returns the error, if any.
local function put(what, key, goal)
  local reply
  if what == 'retry' or what == 'schedule' then
    reply = redis.pcall('ZADD', key, goal.score, goal.payload)
  elseif what == 'dead' then
    reply = redis.pcall('ZADD', key, now, goal.payload)
  else
    if what ~= 'park' then redis.pcall('SADD', QUEUES, goal.name) end
    reply = redis.pcall(what == 'front' and 'RPUSH' or 'LPUSH', key, goal.payload)
  end
  return type(reply) == 'table' and reply.err and reply.err .. ' (key ' .. key .. ')'
end

-- include effects.lua

-- `first` and `last`: the arguments of the effects.
local function end_one(list, from, raw, what, goal, first, last)
  local refused = refusal(what) or (what == 'park' and registry_error(LINES, goal.name))
  if not refused and first then
    refused = goal.key and wrong_type(what, goal.key) or each_effect(first, last, effect_refusal)
  end
  if refused then return refused end
  if list then
    local removed = redis.pcall('LREM', list, from, raw)
    if type(removed) == 'table' then return removed.err .. ' (key ' .. list .. ')' end
    if removed == 0 then return 0 end
  end
  local failed = first and each_effect(first, last, apply)
  if not failed and goal and goal.key then failed = put(what, goal.key, goal) end
  if not failed then return 1 end
  if list then redis.call('RPUSH', list, raw) end
  return failed
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

-- Writes the records of the items that were removed. Returns where the next row or item begins.
local function note_each(i)
  local state, life, reason, class = arguments[i], arguments[i + 1], arguments[i + 2], arguments[i + 3]
  local items, record, names, fields = arguments[i + 4], FIXED + arguments[i + 5], tonumber(arguments[i + 6]), {}
  i = i + 6
  for j = 1, names do fields[2 * j - 1] = arguments[i + j] end
  if class ~= '' then fields[2 * names + 1], fields[2 * names + 2] = 'class', class end
  i = i + names
  for at = 1, #items, 2 do
    for j = 1, names do fields[2 * j] = arguments[i + j] end
    local high, low = string.byte(items, at, at + 1)
    if not stays[256 * high + low] then note(KEYS[record], life, state, reason, fields) end
    record, i = record + 1, i + names
  end
  return i + 1
end

-- Counts in their batch the items that were removed. Returns where the next row or item begins.
local function count_ends(i)
  local items, amount = arguments[i], 0
  for item = 1, #items, 2 do
    local high, low = string.byte(items, item, item + 1)
    if not stays[256 * high + low] then amount = amount + 1 end
  end
  local place, last = batch_place(i + 1)
  end_in_batch(place, 1, 'succeeded', amount, '')
  return last + 1
end

local FOR_ROWS = {notes = note_each, ends = count_ends}

local i = 6
while i <= #arguments do
  local what, from = arguments[i], arguments[i + 2]
  local list = not FOR_ROWS[what] and arguments[i + 1] ~= '0' and KEYS[FIXED + arguments[i + 1]]
  if FOR_ROWS[what] then
    i = FOR_ROWS[what](i + 1)
  elseif what == 'row' or what == 'large' then
    local how, count = arguments[i + 3], tonumber(arguments[i + 4])
    local first, last = i + 5, i + 4 + count
    local places, found, head
    if what == 'large' then places, found, head = find(list, from, first, last) end
    if places and remove(list, places, found, head, how) then
      for _, place in ipairs(places) do count_one('remove', place and 1 or 0) end
    elseif what == 'row' and how ~= '' and cut(list, how, first) then
      at, processed = at + count, processed + count
    else
      for j = first, last do count_one('remove', end_one(list, from, arguments[j], 'remove')) end
    end
    i = last + 1
  else
    local raw, last = arguments[i + 3], i + 8 + arguments[i + 8]
    local goal = {
      key = arguments[i + 4] ~= '0' and KEYS[FIXED + arguments[i + 4]],
      name = arguments[i + 5],
      score = arguments[i + 6],
      payload = arguments[i + 7] == '' and raw or arguments[i + 7],
    }
    count_one(what, end_one(list, from, raw, what, goal, last > i + 8 and i + 9, last))
    i = last + 1
  end
end

-- From here on an error must not end the script, because the items are settled. So all calls are pcall: a counter that
-- cannot be written loses its count.
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - dead_age)
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -dead_limit - 1)
end
local function count(key, day_key, amount)
  if amount == 0 then return end
  redis.pcall('INCRBY', key, amount)
  redis.pcall('INCRBY', day_key, amount)
  redis.pcall('EXPIRE', day_key, day_life)
end
count(KEYS[5], KEYS[7], processed)
count(KEYS[6], KEYS[8], failed)
redis.pcall('SET', RECEIPT, number .. ':' .. cmsgpack.pack(answer), 'EX', receipt_life)
return answer
