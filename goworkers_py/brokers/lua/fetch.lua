-- Moves up to ARGV[1] payloads from a queue's consumer end into an in-progress list, oldest first.
-- KEYS: queue, in-progress list, a key that never exists
-- LPUSH is refused while the server is out of memory, though nothing is added here; a script that has begun to write is
-- let go on. Without this a full server could never be emptied by its workers.
redis.call('DEL', KEYS[3])
local newest_first = redis.call('LRANGE', KEYS[1], '-' .. ARGV[1], '-1')
local count, taken = #newest_first, {}
if count == 0 then return taken end
for i = 1, count do taken[i] = newest_first[count + 1 - i] end
redis.call('LPUSH', KEYS[2], unpack(taken))
redis.call('LTRIM', KEYS[1], '0', '-' .. count + 1)
return taken
