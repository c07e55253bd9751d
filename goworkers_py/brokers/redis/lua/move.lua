-- Moves entries of a set into their queues or the dead set. Each entry is written to its new place, then removed from
-- the set, and only if it is still in the set: another process may have moved it.
-- KEYS: set, queues, dead, a key that never exists, then queues
-- ARGV: dead limit, dead age, then for each entry: number of its queue (0: to the dead set), queue name, entry, payload
--       in its new place
-- Answer: for each entry 1: moved, 0: no longer in the set, or the text of the error for which it stays in the set
local SET, QUEUES, DEAD, FIXED = KEYS[1], KEYS[2], KEYS[3], 4
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
-- Where the access rules do not allow ZREM, the script fails here, before it writes anything: an entry must not be in
-- two places. And a server that is out of memory lets a script go on that has called a write command before.
redis.call('ZREM', KEYS[4], '')
local answer, buried = {}, false
for i = 3, #ARGV, 4 do
  local number, name, entry, payload = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local result = 0
  if redis.call('ZSCORE', SET, entry) then
    local reply
    local key = number == 0 and DEAD or KEYS[FIXED + number]
    if number == 0 then
      reply = redis.pcall('ZADD', key, now, payload)
    else
      reply = redis.pcall('LPUSH', key, payload)
    end
    if type(reply) == 'table' and reply.err then
      result = reply.err .. ' (key ' .. key .. ')'
    else
      redis.call('ZREM', SET, entry)
      result, buried = 1, buried or number == 0
      if number > 0 then redis.pcall('SADD', QUEUES, name) end
    end
  end
  answer[#answer + 1] = result
end
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - ARGV[2])
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -ARGV[1] - 1)
end
return answer
