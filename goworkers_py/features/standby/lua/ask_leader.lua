-- Asks a leader to step down. It finds that with its next renewal, or hears the message.
-- KEYS: lease of the election, which is also the name of its channel
-- ARGV: epoch of the leader, who asks, the message
-- Answer: 1; 0 when another process leads, or none
local LEASE = KEYS[1]
if redis.call('HGET', LEASE, 'epoch') ~= ARGV[1] then return 0 end
redis.call('HSET', LEASE, 'asked', ARGV[2])
redis.pcall('PUBLISH', LEASE, ARGV[3])
return 1
