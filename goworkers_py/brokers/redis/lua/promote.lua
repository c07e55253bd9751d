-- Moves due entries into their queues. The entries of a queue are written to the queue, then removed from the set, and
-- only those that are still in the set and due: another program may have moved an entry, or given it a later time.
--
-- KEYS: set, queues, a key that never exists, then queues, then keys of effects
-- ARGV: now, how many due entries due.lua has skipped, how many queues, their names, then for each entry: number of its
--   queue, entry, payload in its new place, how many arguments its effects have, and these, see effects.lua: they may
--   fail
-- Answer: the text of an error for each entry that stays in the set because of it
local QUEUES, OF_QUEUES, NAMES, SIZE = KEYS[2], 3, 3, 4
-- For fragments: FIXED, arguments
local FIXED, arguments = OF_QUEUES + ARGV[3], ARGV
local effects = ...
local queues, due_until = tonumber(ARGV[3]), tonumber(ARGV[1])
-- Where the access rules do not allow ZREM, the script fails here, before it writes anything: a job must not be in two
-- places. And a server that is out of memory lets a script go on that has called a write command before.
redis.call('ZREM', KEYS[3], '')
local entries, places, at = {}, {}, NAMES + queues + 1
while at <= #ARGV do
  entries[#entries + 1], places[#places + 1] = ARGV[at + 1], at
  at = at + SIZE + ARGV[at + 3]
end
local moved, written, follow = {}, {}, {}
for queue = 1, queues do
  moved[queue], written[queue], follow[queue] = {}, {}, {}
end
-- Mostly the entries are still the first due ones, and one ZRANGEBYSCORE shows that. To read the score of each entry
-- takes longer than the rest of this script.
local there, same = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', ARGV[2], #entries), true
for i, entry in ipairs(entries) do same = same and there[i] == entry end
local scores = not same and redis.call('ZMSCORE', KEYS[1], unpack(entries))
for i, entry in ipairs(entries) do
  if same or (scores[i] and tonumber(scores[i]) <= due_until) then
    local place = places[i]
    local queue = tonumber(ARGV[place])
    local of, to = moved[queue], written[queue]
    of[#of + 1], to[#to + 1] = entry, ARGV[place + 2]
    if ARGV[place + 3] ~= '0' then table.insert(follow[queue], place) end
  end
end
local errors = {}
local function moved_to(key, reply, gone)
  if type(reply) == 'number' then
    redis.call('ZREM', KEYS[1], unpack(gone))
    return true
  end
  for _ = 1, #gone do errors[#errors + 1] = reply.err .. ' (key ' .. key .. ')' end
end
for queue = 1, queues do
  local key, name = KEYS[OF_QUEUES + queue], ARGV[NAMES + queue]
  if #moved[queue] > 0 and moved_to(key, redis.pcall('LPUSH', key, unpack(written[queue])), moved[queue]) then
    redis.pcall('SADD', QUEUES, name)
    -- None of these effects can be refused: they only note where the jobs are.
    for _, place in ipairs(follow[queue]) do effects.apply(place + SIZE, place + SIZE - 1 + ARGV[place + 3]) end
  end
end
return errors
