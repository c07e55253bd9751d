-- Moves up to ARGV[1] payloads from a queue's consumer end into an in-progress list, oldest first.
-- KEYS: queue, in-progress list, a key that never exists
-- What adds to a list is refused while the server is out of memory, though nothing is added here; a script that has
-- begun to write is let go on. Without this a full server could never be emptied by its workers. And where LTRIM is not
-- allowed this says so before anything is moved.
redis.call('LTRIM', KEYS[3], '0', '-1')
local newest_first = redis.call('LRANGE', KEYS[1], '-' .. ARGV[1], '-1')
local count, bytes, taken = #newest_first, 0, {}
if count == 0 then return taken end
for i = 1, count do
  taken[i] = newest_first[count + 1 - i]
  bytes = bytes + #taken[i]
end
if bytes < 1000 * count then
  redis.call('LPUSH', KEYS[2], unpack(taken))
  redis.call('LTRIM', KEYS[1], '0', '-' .. count + 1)
else -- one by one is slower, but the payloads need not be written out to the replicas and the append-only file
  for _ = 1, count do redis.call('RPOPLPUSH', KEYS[1], KEYS[2]) end
end
return taken
