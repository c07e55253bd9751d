-- Settles deliveries: each item is taken off its in-progress list and put into its new place, or stays.
-- An item that is not in its in-progress list was recovered by another process, and is left alone.
-- KEYS: dead, queues, lines, outboxes, processed, failed, processed today, failed today, receipt, a key
--       that never exists, then in-progress lists, goals of items and keys of effects, in any order
-- ARGV: batch number, dead limit, dead age, life of the day's counters, life of the receipt,
--       then rows and items, each beginning with a word, the number of a list (0: the item is in no list here), and the
--       end of the list to look from (1 the newest, -1 the oldest):
--       'row', a row of items that are only removed: their places (one byte for each of the last entries of the list, the
--         newest first: 1 for an item; '' when not known), how many items, their raw payloads in the same order
--       'large', the same for large payloads: a mark that is no job's payload, how many items, their raw payloads
--       'notes', the effects 'note' of items of the rows before; without a list and its end: state, life, reason, class,
--         the number of the index of jobs that have ended so (0: none), the numbers of the items from 1 on (two bytes
--         for each), the number of the record of the first one (the others follow), how many names of fields, the names,
--         and for each item the values
--       'ends', before the rows, items of the rows that have succeeded in a batch; without a list and its end: the
--         numbers of the items, as above, and the place of the batch, see batch.lua
--       'frees', items of the rows before that free their lock; without a list and its end: the numbers of the items, as
--         above, the number of the lock of the first one (the others follow), and their jids
--       the step of one item: its raw payload, the number of its goal (0: none), the goal's name, score, what is put
--         there ('': the raw payload), how many arguments its effects have, and these, see effects.lua
-- Answer: for each item that was not settled its number, and 0 when it was not in its list, or the text of the error
--       for which it stays there
-- include settle_start.lua
-- include note.lua
-- include ended.lua
-- include sidekiq_status.lua
-- include lock.lua
-- include push.lua
trial = NOTHING

-- An item that does not only leave goes to its goal. Returns the error, if any.
local function put(what, key, goal)
  local reply
  if what == 'retry' or what == 'schedule' then
    reply = redis.pcall('ZADD', key, goal.score, goal.payload)
  elseif what == 'dead' then
    reply = redis.pcall('ZADD', key, now, goal.payload)
  else
    local registry = what == 'park' and LINES or QUEUES
    redis.pcall('SADD', registry, goal.name)
    reply = redis.pcall(what == 'front' and 'RPUSH' or 'LPUSH', key, goal.payload)
  end
  return type(reply) == 'table' and reply.err and reply.err .. ' (key ' .. key .. ')'
end

-- include effects.lua

-- Does the effects. Returns the error, if any. An error that nobody has foreseen must not end the script: the items
-- before would be settled, and the settler would not know.
local function applied(first, last)
  local done, failed = pcall(each_effect, first, last, apply)
  if done then return failed end
  return type(failed) == 'table' and failed.err or tostring(failed)
end

-- `first` and `last`: the arguments of the effects.
local function end_one(list, from, raw, what, goal, first, last)
  local refused = refusal(what) or (what == 'park' and registry_error(LINES))
  if not refused and first then
    refused = goal.key and wrong_type(what, goal.key) or each_effect(first, last, effect_refusal)
  end
  if refused then return refused end
  local taken = take_off(list, from, raw)
  if taken ~= 1 then return taken end
  local failed = first and applied(first, last)
  if not failed and goal.key then failed = put(what, goal.key, goal) end
  if not failed then return 1 end
  if list then redis.call('RPUSH', list, raw) end
  return failed
end

-- Writes the records of the items that were removed. Returns where the next row or item begins.
local function note_each(i)
  local state, life, reason, class = arguments[i], arguments[i + 1], arguments[i + 2], arguments[i + 3]
  local index = arguments[i + 4] ~= '0' and KEYS[FIXED + arguments[i + 4]]
  local items, record, names, fields = arguments[i + 5], FIXED + arguments[i + 6], tonumber(arguments[i + 7]), {}
  i = i + 7
  for j = 1, names do fields[2 * j - 1] = arguments[i + j] end
  if class ~= '' then fields[2 * names + 1], fields[2 * names + 2] = 'class', class end
  i = i + names
  for at = 1, #items, 2 do
    for j = 1, names do fields[2 * j] = arguments[i + j] end
    local high, low = string.byte(items, at, at + 1)
    if not stays[256 * high + low] then
      note(KEYS[record], life, state, reason, fields)
      if index then list_ended(index, KEYS[record], state, life) end
    end
    record, i = record + 1, i + names
  end
  return i + 1
end

local function numbers_in(items)
  local numbers = {}
  for at = 1, #items, 2 do
    local high, low = string.byte(items, at, at + 1)
    numbers[#numbers + 1] = 256 * high + low
  end
  return numbers
end

-- The items that succeed in a batch are counted when they were removed. Where their end cannot be counted, they stay.
-- Returns where the next row or item begins.
local ends = {}
local function note_ends(i)
  local numbers, place, last = numbers_in(arguments[i]), batch_place(i + 1)
  local failed = count_refusal(place[1].key, 'total')
  for _, number in ipairs(failed and numbers or {}) do refused[number] = failed end
  if not failed then ends[#ends + 1] = {place = place, numbers = numbers} end
  return last + 1
end

local function count_ends()
  for _, of_batch in ipairs(ends) do
    local amount = 0
    for _, number in ipairs(of_batch.numbers) do
      if not stays[number] then amount = amount + 1 end
    end
    end_in_batch(of_batch.place, 1, 'succeeded', amount, '', '')
  end
end

-- Frees the locks of the items that were removed. Returns where the next row or item begins.
local function free_each(i)
  local items, lock, jid = arguments[i], FIXED + arguments[i + 1], i + 2
  for at = 1, #items, 2 do
    local high, low = string.byte(items, at, at + 1)
    if not stays[256 * high + low] then free_lock(KEYS[lock], arguments[jid]) end
    lock, jid = lock + 1, jid + 1
  end
  return jid
end

local FOR_ROWS = {notes = note_each, ends = note_ends, frees = free_each}

local i = 6
while i <= #arguments do
  local what, from = arguments[i], arguments[i + 2]
  if FOR_ROWS[what] then
    i = FOR_ROWS[what](i + 1)
  elseif what == 'row' or what == 'large' then
    i = end_row(i)
  else
    local list = arguments[i + 1] ~= '0' and KEYS[FIXED + arguments[i + 1]]
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

count_ends()
write_ended()
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - dead_age)
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -dead_limit - 1)
end
-- include settle_end.lua
