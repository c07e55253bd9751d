-- Moves payloads from a queue's consumer end into an in-progress list, oldest first. They are moved one by one: unlike
-- an LPUSH of all of them, RPOPLPUSH tells replicas and the file only the names of the two keys.
-- KEYS: queue, in-progress list, a key that never exists, lease of the list's owner
-- ARGV: most payloads to move, bytes after which to move no more
-- Answer: the payloads, or nil without a lease: no recovery would look for jobs that come into the list then
if redis.call('EXISTS', KEYS[4]) == 0 then return false end

-- A server that is out of memory refuses RPOPLPUSH, also in a script that only moves entries, but not when the script
-- has written before. LTRIM is allowed there and counts as a write. Without this LTRIM, workers could never empty a
-- full server.
redis.call('LTRIM', KEYS[3], '0', '-1')

local taken, bytes, most, enough = {}, 0, tonumber(ARGV[1]), tonumber(ARGV[2])
while #taken < most and bytes < enough do
  local raw = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
  if not raw then break end -- the queue is empty
  taken[#taken + 1], bytes = raw, bytes + #raw
end
return taken
