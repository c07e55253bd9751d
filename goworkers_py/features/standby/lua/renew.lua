-- Renews the lease of a leader, and tells a beat.
-- KEYS: lease of the election, which is also the name of its channel
-- ARGV: token of the term, life of the lease in ms, the message
-- Answer: who has asked the leader to step down ('': nobody); nil when the lease is not that of this term
local LEASE = KEYS[1]
if redis.call('HGET', LEASE, 'token') ~= ARGV[1] then return false end
redis.call('PEXPIRE', LEASE, ARGV[2])
redis.pcall('PUBLISH', LEASE, ARGV[3])
return redis.call('HGET', LEASE, 'asked') or ''
