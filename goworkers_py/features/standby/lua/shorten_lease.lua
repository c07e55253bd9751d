-- Shortens the lease of a leader that lasts longer than its leases do: the clock of this server was set back. From now on
-- the leader has a whole life of its lease, so a leader that lives renews it in time.
-- KEYS: lease of the election
-- ARGV: epoch of the leader
-- Answer: 1; 0 when another process leads, or none, or the lease is no longer than that
local LEASE = KEYS[1]
if redis.call('HGET', LEASE, 'epoch') ~= ARGV[1] then return 0 end
local life = redis.call('HGET', LEASE, 'life')
if not life or redis.call('PTTL', LEASE) <= tonumber(life) then return 0 end
redis.call('PEXPIRE', LEASE, life)
return 1
