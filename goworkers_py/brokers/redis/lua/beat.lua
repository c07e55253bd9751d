-- Registers an owner of in-progress lists, or renews its lease.
-- KEYS: its lease, owners, gone, holder of the fixed process name, lease of that holder (each a key that never exists
--       where there is none)
-- ARGV: identity, its entry in owners, life of the lease, number of this beat, 'named' when it claims a fixed process
--       name, the identity that was read as the holder of that name before, or ''
-- Answer: 'ok', the server's time and the number that the lease held ('' when it was missing); 'gone' when its jobs
--         were given to others; 'late' when a later beat was faster; 'held' when a live process has the name;
--         'changed' when another holder was read before
local LEASE, OWNERS, GONE, HOLDER, LEASE_OF_HOLDER = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local identity, entry, life, number, named, expected = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
if redis.call('HEXISTS', GONE, identity) == 1 then return {'gone'} end
if named == 'named' then
  local holder = redis.call('GET', HOLDER) or ''
  if holder ~= expected then return {'changed'} end
  if holder ~= '' and holder ~= identity and redis.call('HEXISTS', GONE, holder) == 0
      and redis.call('EXISTS', LEASE_OF_HOLDER) == 1 then
    return {'held'}
  end
end
local found = redis.call('GET', LEASE) or ''
-- A beat that was given up, and arrives after the ones that followed it, must not bring back what it told.
if (tonumber(found) or 0) > tonumber(number) then return {'late'} end
-- A lease that is missing though nobody took the jobs (an outage, an eviction) is simply made again. EXPIRE comes
-- first because, unlike SET, it is allowed while the server is out of memory, and then SET is too.
redis.call('EXPIRE', LEASE, life)
redis.call('SET', LEASE, number, 'EX', life)
redis.call('HSET', OWNERS, identity, entry)
if named == 'named' then redis.call('SET', HOLDER, identity, 'EX', life) end
local time = redis.call('TIME')
return {'ok', time[1] .. '.' .. string.format('%06d', time[2]), found}
