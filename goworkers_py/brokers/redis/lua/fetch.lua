-- Moves payloads from the consumer ends of queues into in-progress lists, ask by ask, oldest first. They are moved one by
-- one: unlike an LPUSH of all of them, RPOPLPUSH tells replicas and the file only the names of the two keys.
-- KEYS: of each queue itself and the in-progress list; then a key that never exists, and the lease of the lists' owner
-- ARGV: most payloads to move in all, bytes after which to move no more; then the asks: of each the number of its queue,
--       and most payloads to move of it. A queue may be asked again
-- Answer: for each ask that was come to, the payloads; or nil without a lease: no recovery would look for jobs that come
--         into the lists then
local left, enough, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
if redis.call('EXISTS', KEYS[#KEYS]) == 0 then return false end

-- A server that is out of memory refuses RPOPLPUSH, also in a script that only moves entries, but not when the script
-- has written before. LTRIM is allowed there and counts as a write. Without this LTRIM, workers could never empty a
-- full server.
redis.call('LTRIM', KEYS[#KEYS - 1], '0', '-1')

local answer, moved, failed = {}, false, nil
for i = 3, #ARGV, 2 do
  if left < 1 or bytes >= enough then break end
  local place, taken, most = tonumber(ARGV[i]) * 2, {}, math.min(left, tonumber(ARGV[i + 1]))
  local key, list = KEYS[place - 1], KEYS[place]
  answer[#answer + 1] = taken
  while #taken < most and bytes < enough do
    local raw = redis.pcall('RPOPLPUSH', key, list)
    if type(raw) == 'table' then failed = failed or raw end -- an error: the other queues are asked all the same
    if type(raw) ~= 'string' then break end -- or the queue is empty
    taken[#taken + 1], bytes, moved = raw, bytes + #raw, true
  end
  left = left - #taken
end
-- The jobs that were moved are returned: the caller would not know of them otherwise.
return not moved and failed or answer
