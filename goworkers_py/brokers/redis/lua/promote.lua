-- Moves due entries into their queues. The entries of a queue are written to the queue, then removed from the set, and
-- only those that are still in the set and due: another program may have moved an entry, or given it a later time.
-- KEYS: set, queues, dead, a key that never exists, then queues
-- ARGV: now, how many due entries due.lua has skipped, dead limit, dead age, the names of the queues, then for each
--   entry: number of its queue (0: to the dead set), entry, payload in its new place
-- Answer: the text of an error for each entry that stays in the set because of it
-- Where the access rules do not allow ZREM, the script fails here, before it writes anything: a job must not be in two
-- places. And a server that is out of memory lets a script go on that has called a write command before.
redis.call('ZREM', KEYS[4], '')
local queues, now = #KEYS - 4, tonumber(ARGV[1])
local entries, places, payloads = {}, {}, {}
for i = 5 + queues, #ARGV, 3 do
  entries[#entries + 1], places[#places + 1], payloads[#payloads + 1] = ARGV[i + 1], tonumber(ARGV[i]), ARGV[i + 2]
end
local moved, written = {}, {}
for queue = 0, queues do
  moved[queue], written[queue] = {}, {}
end
-- Mostly the entries are still the first due ones, and one ZRANGEBYSCORE shows that. To read the score of each entry
-- takes longer than the rest of this script.
local there, same = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', ARGV[2], #entries), true
for i, entry in ipairs(entries) do same = same and there[i] == entry end
local scores = not same and redis.call('ZMSCORE', KEYS[1], unpack(entries))
for i, entry in ipairs(entries) do
  if same or (scores[i] and tonumber(scores[i]) <= now) then
    local of, to = moved[places[i]], written[places[i]]
    of[#of + 1], to[#to + 1] = entry, payloads[i]
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
for i, entry in ipairs(moved[0]) do
  moved_to(KEYS[3], redis.pcall('ZADD', KEYS[3], ARGV[1], written[0][i]), {entry})
end
for queue = 1, queues do
  local key = KEYS[4 + queue]
  if #moved[queue] > 0 and moved_to(key, redis.pcall('LPUSH', key, unpack(written[queue])), moved[queue]) then
    redis.pcall('SADD', KEYS[2], ARGV[4 + queue])
  end
end
if #moved[0] > 0 then
  redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[4])
  redis.pcall('ZREMRANGEBYRANK', KEYS[3], 0, -ARGV[3] - 1)
end
return errors
