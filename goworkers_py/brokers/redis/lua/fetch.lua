-- Moves payloads from the consumer ends of queues into in-progress lists, ask by ask, oldest first.
-- KEYS: of each queue itself and the in-progress list; then a key that never exists, and the lease of the lists' owner
-- ARGV: most payloads to move in all, bytes of large payloads after which to move no more; then the asks: of each the
--       number of its queue, and most payloads to move of it. A queue may be asked again
-- Answer: for each ask that was come to, the payloads; or nil without a lease: no recovery would look for jobs that come
--         into the lists then
local LARGE = 1000
local left, enough, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
if redis.call('EXISTS', KEYS[#KEYS]) == 0 then return false end

-- A server that is out of memory refuses LPUSH and RPOPLPUSH, also in a script that only moves entries, but not when
-- the script has written before. LTRIM is allowed there and counts as a write. Without this LTRIM, workers could never
-- empty a full server. And where the access rules do not allow LTRIM, the script fails here, before it moves anything.
redis.call('LTRIM', KEYS[#KEYS - 1], '0', '-1')

-- Reads small payloads, up to the first large one. The sizes are not known before: so the first payload is read alone,
-- which costs little, and the next ones mostly have its size. At most a hundred are read at a time. Returns an error
-- as the third value.
local function read_small(key, most)
  local small, few = {}, 1
  while #small < most do
    local part = redis.pcall('LRANGE', key, -#small - few, -#small - 1)
    if part.err then return {}, false, part end
    for i = #part, 1, -1 do
      if #part[i] > LARGE then return small, true end
      small[#small + 1] = part[i]
    end
    if #part < few then break end
    few = math.min(few == 1 and 20 or few * 2, 100, most - #small)
  end
  return small, false
end

-- Moves up to `most` payloads. Returns them, and an error if it moved none because of one.
local function take(key, list, most)
  -- Small payloads are read, and then moved by two commands for all of them. LPUSH comes first: where it is refused,
  -- nothing is moved.
  local taken, large, failed = {}, true, nil
  if most > 1 then taken, large, failed = read_small(key, most) end
  if #taken > 0 then
    failed = redis.pcall('LPUSH', list, unpack(taken))
    if type(failed) == 'table' then return {}, failed end
    redis.call('LTRIM', key, '0', -#taken - 1)
  elseif failed then
    return taken, failed
  end
  -- The rest is moved one by one. That is slower, but the command to replicas and to the file holds no payload then.
  while large and #taken < most and bytes < enough do
    local raw = redis.pcall('RPOPLPUSH', key, list)
    if type(raw) == 'table' and #taken == 0 then return taken, raw end
    if type(raw) ~= 'string' then break end -- the queue is empty, or an error: the payloads so far are returned
    taken[#taken + 1], bytes = raw, bytes + #raw
  end
  return taken
end

local answer, moved = {}, false
for i = 3, #ARGV, 2 do
  if left < 1 or bytes >= enough then break end
  local place = tonumber(ARGV[i]) * 2
  local taken, failed = take(KEYS[place - 1], KEYS[place], math.min(left, tonumber(ARGV[i + 1])))
  -- What was moved before an error is returned: the caller would not know of it otherwise.
  if failed then
    if moved then break end
    return failed
  end
  answer[#answer + 1], left, moved = taken, left - #taken, moved or #taken > 0
end
return answer
