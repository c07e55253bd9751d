-- Moves payloads from a queue's consumer end into an in-progress list, oldest first.
-- KEYS: queue, in-progress list, a key that never exists, lease of the list's owner
-- ARGV: how many at most, after how many bytes of large ones it is enough
-- Answer: the payloads, or nil when the lease is gone: nobody would look for jobs that come into the list from now on
local QUEUE, LIST, LARGE = KEYS[1], KEYS[2], 1000
local most, enough = tonumber(ARGV[1]), tonumber(ARGV[2])
if redis.call('EXISTS', KEYS[4]) == 0 then return false end

-- What adds to a list is refused while the server is out of memory, though nothing is added here; a script that has
-- begun to write is let go on. Without this a full server could never be emptied by its workers. And where LTRIM is not
-- allowed this says so before anything is moved.
redis.call('LTRIM', KEYS[3], '0', '-1')

-- Up to the first large one. Nobody knows how large the next ones are: so the first is looked at alone, which costs
-- little and mostly tells for all, and never more than a hundred at a time are read.
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

-- Small ones are read, and moved by two commands for all. LPUSH comes first: where it is not allowed nothing is moved.
local taken, large = {}, true
if most > 1 then taken, large = read_small() end
if #taken > 0 then
  redis.call('LPUSH', LIST, unpack(taken))
  redis.call('LTRIM', QUEUE, '0', -#taken - 1)
end
-- The rest one by one: slower, but moved without being written out once more, also to replicas.
local bytes = 0
while large and #taken < most and bytes < enough do
  local raw = redis.pcall('RPOPLPUSH', QUEUE, LIST)
  if type(raw) == 'table' and #taken == 0 then return raw end -- an error
  if type(raw) ~= 'string' then break end -- the queue is empty, or an error: what was taken is told all the same
  taken[#taken + 1], bytes = raw, bytes + #raw
end
return taken
