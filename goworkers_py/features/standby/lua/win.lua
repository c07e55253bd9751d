-- Wins an election, if it has no leader: begins a term, and declares the last leader dead.
-- KEYS: lease of the election, its record, gone, the process lease of the last leader (or a key that never exists)
-- ARGV: token of the new term, identity of the bidder, life of the lease in ms, an epoch that the new one must exceed,
--       identity of the last leader as the bidder has read it (or ''), '1' when the bidder prefers to lead, seconds to
--       remember a dead identity, seconds that `gone` lives, the version of the records that this release writes
-- Answer: the epoch; 0: another process leads, or has won since the bidder looked; -1: a later release has written the
--         record
local LEASE, RECORD, GONE, LAST = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, identity, life, seen, last, prefers = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if redis.call('EXISTS', LEASE) == 1 then
  -- The reply to the first bid was lost.
  if redis.call('HGET', LEASE, 'token') == token then return tonumber(redis.call('HGET', LEASE, 'epoch')) end
  return 0
end
local v = redis.call('HGET', RECORD, 'v')
if v and tonumber(v) > tonumber(ARGV[9]) then return -1 end
if (redis.call('HGET', RECORD, 'identity') or '') ~= last then return 0 end
-- Where the access rules do not allow PEXPIRE, the script fails here: a lease that never ends would lock the election.
redis.call('PEXPIRE', LEASE, life)
-- First the term, then the death of the last leader: a server that is full refuses HSET here, before anything is done.
local epoch = math.max(tonumber(redis.call('HGET', RECORD, 'epoch') or 0), tonumber(seen)) + 1
local time = redis.call('TIME')
redis.call('HSET', RECORD, 'v', ARGV[9], 'epoch', epoch, 'identity', identity, 'at', time[1])
redis.call('HSET', LEASE, 'v', ARGV[9], 'token', token, 'epoch', epoch, 'identity', identity, 'prefers', prefers,
  'life', life, 'since', time[1] .. '.' .. string.format('%06d', time[2]))
redis.call('PEXPIRE', LEASE, life)
if last ~= '' and last ~= identity then
  redis.call('HSETNX', GONE, last, time[1] + ARGV[7])
  redis.call('EXPIRE', GONE, ARGV[8])
  redis.call('DEL', LAST)
end
return epoch
