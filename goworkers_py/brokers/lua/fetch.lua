-- Moves up to ARGV[1] payloads from a queue's consumer end into an in-progress list, oldest first.
-- KEYS: queue, in-progress list, a key that never exists
local taken = {}
-- RPOPLPUSH is refused while the server is out of memory, though it takes none; a script that has begun to write is
-- let go on. Without this a full server could never be emptied by its workers.
redis.call('DEL', KEYS[3])
for i = 1, tonumber(ARGV[1]) do
  local raw = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
  if not raw then break end
  taken[i] = raw
end
return taken
