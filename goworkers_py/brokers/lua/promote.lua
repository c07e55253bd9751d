-- Moves due entries into their queues. Those of a queue are written to their new place first and removed then, and only
-- those that still are in the set and due: another program may have been faster, or may have put one off.
-- KEYS: set, queues, dead, a key that never exists, then queues
-- ARGV: now, how many due entries were passed over, the names of the queues, then for each entry: number of its queue
--   (0: to the dead set unchanged), entry, new payload
-- Answer: for each entry that had to stay where it was the text of the error
redis.call('DEL', KEYS[4]) -- a script that has begun to write is let go on when the server is out of memory
local queues, now = #KEYS - 4, tonumber(ARGV[1])
local entries, places, payloads = {}, {}, {}
for i = 3 + queues, #ARGV, 3 do
  entries[#entries + 1], places[#places + 1], payloads[#payloads + 1] = ARGV[i + 1], tonumber(ARGV[i]), ARGV[i + 2]
end
local moved, written = {}, {}
for queue = 0, queues do
  moved[queue], written[queue] = {}, {}
end
-- Mostly they still are what comes first; a score of each costs more than all the rest.
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
for queue = 0, queues do
  local reply = true
  if #moved[queue] > 0 and queue > 0 then
    reply = redis.pcall('LPUSH', KEYS[4 + queue], unpack(written[queue]))
  elseif #moved[queue] > 0 then
    for _, entry in ipairs(moved[0]) do
      reply = redis.pcall('ZADD', KEYS[3], ARGV[1], entry)
    end
  end
  for _ = 1, type(reply) == 'table' and #moved[queue] or 0 do
    errors[#errors + 1] = reply.err .. ' (key ' .. (queue > 0 and KEYS[4 + queue] or KEYS[3]) .. ')'
  end
  if type(reply) == 'number' then
    if queue > 0 then redis.pcall('SADD', KEYS[2], ARGV[2 + queue]) end
    redis.call('ZREM', KEYS[1], unpack(moved[queue]))
  end
end
return errors
