-- Declares an owner dead, for good: from this step on its lease cannot be renewed and its jobs may be moved.
-- KEYS: its lease, gone
-- ARGV: identity, 'certain' when it is known to be dead whatever its lease says, how long to remember it
-- Answer: 1 when it is dead now, 0 when it lives
if ARGV[2] ~= 'certain' and redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSETNX', KEYS[2], ARGV[1], redis.call('TIME')[1] + ARGV[3])
return 1
