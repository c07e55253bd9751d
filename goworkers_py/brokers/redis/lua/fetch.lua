-- Moves payloads from a queue's consumer end into an in-progress list, oldest first.
-- KEYS: queue, in-progress list, a key that never exists, lease of the list's owner
-- ARGV: most payloads to move, bytes of large payloads after which to move no more
-- Answer: the payloads, or nil without a lease: no recovery would look for jobs that come into the list then
local QUEUE, LIST, LARGE = KEYS[1], KEYS[2], 1000
local most, enough = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('EXISTS', KEYS[4]) == 0 then return false end

-- A server that is out of memory refuses LPUSH and RPOPLPUSH, also in a script that only moves entries, but not when
-- the script has written before. LTRIM is allowed there and counts as a write. Without this LTRIM, workers could never
-- empty a full server. And where the access rules do not allow LTRIM, the script fails here, before it moves anything.
redis.call('LTRIM', KEYS[3], '0', '-1')

-- Reads small payloads, up to the first large one. The sizes are not known before: so the first payload is read alone,
-- which costs little, and the next ones mostly have its size. At most a hundred are read at a time.
local function read_small()
  local small, few = {}, 1
  while #small < most do
    local part = redis.call('LRANGE', QUEUE, -#small - few, -#small - 1)
    for i = #part, 1, -1 do
      if #part[i] > LARGE then return small, true end
      small[#small + 1] = part[i]
    end
    if #part < few then break end
    few = math.min(few == 1 and 20 or few * 2, 100, most - #small)
  end
  return small, false
end

-- Small payloads are read, and then moved by two commands for all of them. LPUSH comes first: where the access rules do
-- not allow it, nothing is moved.
local taken, large = {}, true
if most > 1 then taken, large = read_small() end
if #taken > 0 then
  redis.call('LPUSH', LIST, unpack(taken))
  redis.call('LTRIM', QUEUE, '0', -#taken - 1)
end
-- The rest is moved one by one. That is slower, but the command to replicas and to the file holds no payload then.
local bytes = 0
while large and #taken < most and bytes < enough do
  local raw = redis.pcall('RPOPLPUSH', QUEUE, LIST)
  if type(raw) == 'table' and #taken == 0 then return raw end -- an error
  if type(raw) ~= 'string' then break end -- the queue is empty, or an error: the payloads so far are returned
  taken[#taken + 1], bytes = raw, bytes + #raw
end
return taken
