-- Stores the cursor of an iterable job, unless another run of it has begun or it has ended. While another job with the
-- same jid has the key, nothing is stored either.
-- KEYS: it-JID
-- ARGV: number of the run, cursor, seconds of all runs, life of the key, `created_at` of the job
-- Answer: 0 when another run has begun or the job has ended, else 1
local of = redis.call('HGET', KEYS[1], 'of')
if of and of ~= ARGV[5] then return 1 end
if not of or redis.call('HGET', KEYS[1], 'ex') ~= ARGV[1] then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[4]) -- first: after it a server that is out of memory allows HSET too
redis.call('HSET', KEYS[1], 'c', ARGV[2], 'rt', ARGV[3])
return 1
