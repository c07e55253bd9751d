-- Leaves the tombstone of a job, or removes it because nobody is to meet the job any more.
-- KEYS: tombstones (also the channel), their version, answer to the one who cancels
-- ARGV: 'ask', jid, its tombstone, seconds that a tombstone lives; or 'withdraw', jid
-- Answer: 1
local TOMBSTONES, VERSION, ANSWER = KEYS[1], KEYS[2], KEYS[3]
if ARGV[1] == 'withdraw' then
  redis.call('HDEL', TOMBSTONES, ARGV[2])
  redis.call('INCRBY', VERSION, '1')
  return 1
end
-- An older answer is about another run. While there is a tombstone, somebody else waits for the answer too.
if redis.call('HSET', TOMBSTONES, ARGV[2], ARGV[3]) == 1 then redis.call('DEL', ANSWER) end
redis.call('EXPIRE', TOMBSTONES, ARGV[4])
redis.call('INCRBY', VERSION, '1')
redis.pcall('PUBLISH', TOMBSTONES, ARGV[3])
return 1
