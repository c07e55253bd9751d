-- Registers an owner of in-progress lists, or renews its lease.
-- KEYS: its lease, owners, gone, holder of the fixed process name (or a key that never exists)
-- ARGV: identity, its entry in owners, life of the lease, prefix of leases, fixed process name or ''
-- Answer: 'ok' and the server's time, 'gone' when its jobs were given to others, or 'held' and the live identity that has the name
local LEASE, OWNERS, GONE, HOLDER = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local identity, entry, life, leases, process = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if redis.call('HEXISTS', GONE, identity) == 1 then return {'gone'} end
if process ~= '' then
  local holder = redis.call('GET', HOLDER)
  if holder and holder ~= identity and redis.call('HEXISTS', GONE, holder) == 0
      and redis.call('EXISTS', leases .. holder) == 1 then
    return {'held', holder}
  end
end
-- A lease that is missing though nobody took the jobs (an outage, an eviction) is simply made again. EXPIRE comes
-- first because, unlike SET, it is allowed while the server is out of memory, and then SET is too.
if redis.call('EXPIRE', LEASE, life) == 0 then redis.call('SET', LEASE, '1', 'EX', life) end
redis.call('HSET', OWNERS, identity, entry)
if process ~= '' then redis.call('SET', HOLDER, identity) end
local time = redis.call('TIME')
return {'ok', time[1] .. '.' .. string.format('%06d', time[2])}
