-- Keeps tasks of a delay queue. Each replaces a task of its id, and a claim on that.
-- KEYS: tasks, due times, claims
-- ARGV: for each task its id, its due time and its record
local TASKS, DUE, CLAIMS = KEYS[1], KEYS[2], KEYS[3]
redis.call('ZMSCORE', DUE, '')
redis.call('HGET', CLAIMS, '')
for at = 1, #ARGV, 3 do
  redis.call('HSET', TASKS, ARGV[at], ARGV[at + 2])
  redis.call('ZADD', DUE, ARGV[at + 1], ARGV[at])
  redis.call('HDEL', CLAIMS, ARGV[at])
end
return #ARGV / 3
