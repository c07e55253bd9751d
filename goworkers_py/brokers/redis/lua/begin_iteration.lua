-- Begins a run of an iterable job. Its key is that of Sidekiq 7.3: `ex` how many runs were begun, `c` the cursor as JSON,
-- `rt` the seconds of all runs. Ours has also `py`, the version of what we write. A key that Sidekiq has written stays as
-- it is.
-- KEYS: it-JID
-- ARGV: our version, life of the key
-- Answer: the fields and values of the key
-- A server that is out of memory refuses HSET to a script that has written nothing. EXPIRE is allowed, and is a write.
redis.call('EXPIRE', KEYS[1], ARGV[2])
local ex, py = redis.call('HGET', KEYS[1], 'ex'), redis.call('HGET', KEYS[1], 'py')
if py == ARGV[1] or not py and (tonumber(ex or 0) or 1) == 0 then
  redis.call('HSET', KEYS[1], 'ex', (tonumber(ex or 0) or 0) + 1, 'py', ARGV[1])
  redis.call('HSETNX', KEYS[1], 'c', 'null')
  redis.call('HSETNX', KEYS[1], 'rt', '0')
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return redis.call('HGETALL', KEYS[1])
