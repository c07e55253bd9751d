-- Stores the cursor of an iterable job, unless another run of it has begun or it has ended.
-- KEYS: it-JID
-- ARGV: number of the run, cursor, seconds of all runs, life of the key
-- Answer: 1 when it was stored, else 0
if redis.call('HGET', KEYS[1], 'ex') ~= ARGV[1] then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[4]) -- first: after it a server that is out of memory allows HSET too
redis.call('HSET', KEYS[1], 'c', ARGV[2], 'rt', ARGV[3])
return 1
