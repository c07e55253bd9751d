-- Deletes tasks of a delay queue, with the claims on them.
-- KEYS: tasks, due times, claims
-- ARGV: ids
-- Answer: how many of them there were
local TASKS, DUE, CLAIMS = KEYS[1], KEYS[2], KEYS[3]
redis.call('ZMSCORE', DUE, '')
redis.call('HGET', CLAIMS, '')
local deleted = 0
for _, id in ipairs(ARGV) do
  deleted = deleted + redis.call('HDEL', TASKS, id)
  redis.call('ZREM', DUE, id)
  redis.call('HDEL', CLAIMS, id)
end
return deleted
