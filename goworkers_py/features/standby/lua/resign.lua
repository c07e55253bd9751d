-- Ends the term of a leader, and tells its farewell.
-- KEYS: lease of the election, which is also the name of its channel; its record
-- ARGV: token of the term, identity of the leader, the message
-- Answer: 1; 0 when the term was over
local LEASE, RECORD = KEYS[1], KEYS[2]
if redis.call('HGET', LEASE, 'token') ~= ARGV[1] then return 0 end
-- The leader has left in order: nobody declares it dead.
if redis.call('HGET', RECORD, 'identity') == ARGV[2] then redis.call('HDEL', RECORD, 'identity') end
redis.call('DEL', LEASE)
redis.pcall('PUBLISH', LEASE, ARGV[3])
return 1
