-- Deletes a task of a delay queue, with a claim on it.
-- KEYS: tasks, due times, claims, owners
-- ARGV: owner, id
-- Answer: 1 when it was there and no other owner with a lease had a claim on it; otherwise 0
-- For fragments: OWNERS
local TASKS, DUE, CLAIMS, OWNERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local delay_lives = ...
redis.call('ZMSCORE', DUE, '')
local owner, id = ARGV[1], ARGV[2]
local runs_elsewhere = delay_lives.claimed_elsewhere(id, owner)
local deleted = redis.call('HDEL', TASKS, id)
redis.call('ZREM', DUE, id)
redis.call('HDEL', CLAIMS, id)
if runs_elsewhere then return 0 end
return deleted
