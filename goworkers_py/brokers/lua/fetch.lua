-- Moves up to ARGV[1] payloads from a queue's consumer end into an in-progress list, oldest first.
-- KEYS: queue, in-progress list, a key that never exists

-- What adds to a list is refused while the server is out of memory, though nothing is added here; a script that has
-- begun to write is let go on. Without this a full server could never be emptied by its workers. And where LTRIM is not
-- allowed this says so before anything is moved.
redis.call('LTRIM', KEYS[3], '0', '-1')
local first, more = redis.call('RPOPLPUSH', KEYS[1], KEYS[2]), ARGV[1] - 1
if not first then return {} end
local taken = {first}
-- Jobs of a queue are mostly alike, so the first one tells for all. Large ones one by one: slower, but moved without
-- being written out once more, also to replicas. Small ones together: three commands for all of them.
if #first > 1000 then
  while #taken <= more do
    local raw = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
    if not raw then break end
    taken[#taken + 1] = raw
  end
elseif more > 0 then
  local newest_first = redis.call('LRANGE', KEYS[1], -more, '-1')
  local count, others = #newest_first, {}
  for i = 1, count do
    others[i] = newest_first[count + 1 - i]
    taken[i + 1] = others[i]
  end
  if count > 0 then
    redis.call('LPUSH', KEYS[2], unpack(others))
    redis.call('LTRIM', KEYS[1], '0', '-' .. count + 1)
  end
end
return taken
