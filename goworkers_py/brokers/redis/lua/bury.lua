-- Declares an owner dead, for good: from this step on its lease cannot be renewed and its jobs may be moved.
-- KEYS: its lease, gone, lease of the process that asks (or a key that never exists)
-- ARGV: identity, 'certain' when it is known to be dead whatever its lease says, seconds to remember it, seconds that
--       `gone` lives, what the lease of the process that asks holds since its last beat, or '', the time from which on
--       that is too old to prove anything: this server's clock was set, or that process stood still
-- Answer: 1 when it is dead now, 0 when it lives, or when the lease of the process that asks is not as its beat left
--         it: the server has lost writes, and that a lease is missing proves nothing
local LEASE, GONE, ASKING = KEYS[1], KEYS[2], KEYS[3]
local identity, certain, remember, life, proof = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if certain ~= 'certain' then
  if proof ~= '' and (redis.call('GET', ASKING) ~= proof or redis.call('TIME')[1] - ARGV[6] >= 0) then return 0 end
  if redis.call('EXISTS', LEASE) == 1 then return 0 end
end
-- Twice: at first because, unlike HSETNX, it is allowed while the server is out of memory, and then HSETNX is too.
redis.call('EXPIRE', GONE, life)
redis.call('HSETNX', GONE, identity, redis.call('TIME')[1] + remember)
redis.call('EXPIRE', GONE, life)
redis.call('DEL', LEASE)
return 1
