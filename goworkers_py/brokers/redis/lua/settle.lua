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
-- For fragments: OUTBOXES, RECEIPT, NOTHING, TRIAL, number, day_life, receipt_life
local DEAD, QUEUES, LINES, OUTBOXES, RECEIPT, NOTHING = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[9], KEYS[10]
local FIXED, TRIAL, arguments, number, day_life, receipt_life = 10, KEYS[10], ARGV, ARGV[1], ARGV[4], ARGV[5]
local receipt, rows, refusal, type_error, registry_error, effects, row_handlers, now = ...
local IN_SETS = {retry = true, schedule = true, dead = true}
local known = receipt.answer()
if known then return known end

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

-- Does the effects. Returns the error, if any. An error that nobody has foreseen must not end the script: the items
-- before would be settled, and the settler would not know.
local function applied(first, last)
  local done, failed = pcall(effects.apply, first, last)
  if done then return failed end
  return type(failed) == 'table' and failed.err or tostring(failed)
end

-- `first` and `last`: the arguments of the effects.
local function end_one(list, from, raw, what, goal, first, last)
  local refused = refusal(what) or (what == 'park' and registry_error(LINES))
  if not refused and first then
    refused = goal.key and type_error(IN_SETS[what] and 'ZCARD' or 'LLEN', goal.key) or effects.refusal(first, last)
  end
  if refused then return refused end
  local taken = rows.take_off(list, from, raw)
  if taken ~= 1 then return taken end
  local failed = first and applied(first, last)
  if not failed and goal.key then failed = put(what, goal.key, goal) end
  if not failed then return 1 end
  if list then redis.call('RPUSH', list, raw) end
  return failed
end

local i = 6
while i <= #arguments do
  local what, from = arguments[i], arguments[i + 2]
  if row_handlers[what] then
    i = row_handlers[what](i + 1, rows.settled)
  elseif what == 'row' or what == 'large' then
    i = rows.end_row(i)
  else
    local list = arguments[i + 1] ~= '0' and KEYS[FIXED + arguments[i + 1]]
    local raw, last = arguments[i + 3], i + 8 + arguments[i + 8]
    local goal = {
      key = arguments[i + 4] ~= '0' and KEYS[FIXED + arguments[i + 4]],
      name = arguments[i + 5],
      score = arguments[i + 6],
      payload = arguments[i + 7] == '' and raw or arguments[i + 7],
    }
    rows.count_one(what, end_one(list, from, raw, what, goal, last > i + 8 and i + 9, last))
    i = last + 1
  end
end

effects.finish()
if rows.settled.buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - ARGV[3])
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -ARGV[2] - 1)
end
return receipt.finish(rows.settled)
