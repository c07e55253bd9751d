-- Registers an owner of in-progress lists, or of blocks of code, or renews its lease.
-- KEYS: lease of the owner, its registry (owners or blocks), gone, holder of the fixed process name, lease of that holder (the last two are a
--       key that never exists when the owner claims no name)
-- ARGV: identity of the owner, its entry in owners, life of the lease, number of this beat, 'named' when the owner
--       claims a fixed process name, the identity that the caller has read as the holder of that name, or ''
-- Answer: 'ok', the server's time and the number that the lease held ('' when it was missing)
--         'gone': the owner was declared dead
--         'late': a later beat of the owner arrived before this one
--         'held': a live process has the name
--         'changed': the holder is not the one that the caller has read
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
-- A beat whose caller gave it up may arrive after later beats. It must not replace their entry.
if (tonumber(found) or 0) > tonumber(number) then return {'late'} end
-- A lease that is missing while the owner was not declared dead (an outage, an eviction) is made again. EXPIRE comes
-- first: unlike SET, it is allowed while the server is out of memory, and after it the script may call SET too.
redis.call('EXPIRE', LEASE, life)
redis.call('SET', LEASE, number, 'EX', life)
redis.call('HSET', OWNERS, identity, entry)
if named == 'named' then redis.call('SET', HOLDER, identity, 'EX', life) end
local time = redis.call('TIME')
return {'ok', time[1] .. '.' .. string.format('%06d', time[2]), found}
