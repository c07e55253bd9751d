-- Begins a run of an iterable job. Its key is that of Sidekiq 7.3: `ex` how many runs were begun, `c` the cursor as JSON,
-- `rt` the seconds of all runs. Three fields are ours: `v` the version, `py` the `ex` of our last write, `of` the
-- `created_at` of the job. Sidekiq writes `ex` and leaves `py`, so a key whose two differ is Sidekiq's, and stays as it is.
-- KEYS: it-JID
-- ARGV: our version, life of the key, `created_at` of the job
-- Answer: the fields and values of the key
-- A server that is out of memory refuses HSET to a script that has written nothing. EXPIRE is allowed, and is a write.
redis.call('EXPIRE', KEYS[1], ARGV[2])
local function field(name) return redis.call('HGET', KEYS[1], name) or '' end
local ex, py, v = field('ex'), field('py'), field('v')
local ours = v == ARGV[1] and py ~= '' and py == ex
if ours and field('of') ~= ARGV[3] then -- of an earlier job with the same jid
  redis.call('DEL', KEYS[1])
  ex = ''
end
-- Who cancels a job that has not begun may leave a key without `ex`, or with 0.
if ours or (v == '' and py == '' and (ex == '' or ex == '0')) then
  local run = (tonumber(ex) or 0) + 1
  redis.call('HSET', KEYS[1], 'ex', run, 'py', run, 'v', ARGV[1], 'of', ARGV[3])
  redis.call('HSETNX', KEYS[1], 'c', 'null')
  redis.call('HSETNX', KEYS[1], 'rt', '0')
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return redis.call('HGETALL', KEYS[1])
