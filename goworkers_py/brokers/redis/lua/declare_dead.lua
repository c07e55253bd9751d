-- Declares an owner dead for good: after this step its lease cannot be renewed, and its jobs may be moved.
-- KEYS: lease of the owner, gone, lease of the calling process (or a key that never exists)
-- ARGV: identity of the owner, 'certain' when its process has certainly ended, seconds to remember it, seconds that
--       `gone` lives, the proof of the calling process ('': not compared), the time at which the proof becomes too old:
--       this server's clock was set, or the calling process stood still
-- Answer: 1 when the owner is dead now; 0 when it lives, or the proof is not valid. The proof is what the last beat of
--         the calling process wrote into its lease. If its lease does not hold the proof, the server has lost writes,
--         and a missing lease of the owner does not show that the owner is dead.
local LEASE, GONE, ASKING = KEYS[1], KEYS[2], KEYS[3]
local identity, certain, remember, life, proof = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if certain ~= 'certain' then
  if proof ~= '' and (redis.call('GET', ASKING) ~= proof or redis.call('TIME')[1] - ARGV[6] >= 0) then return 0 end
  if redis.call('EXISTS', LEASE) == 1 then return 0 end
end
-- EXPIRE twice. The first one is for a server that is out of memory: unlike HSETNX, EXPIRE is allowed there, and after
-- it the script may call HSETNX too. The second one is for a hash that HSETNX has just made.
redis.call('EXPIRE', GONE, life)
redis.call('HSETNX', GONE, identity, redis.call('TIME')[1] + remember)
redis.call('EXPIRE', GONE, life)
redis.call('DEL', LEASE)
return 1
