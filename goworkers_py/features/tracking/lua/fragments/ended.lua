-- The indexes of tracked jobs that have ended. Each is a sorted set for one way
-- to end: their jids, by the time of the end. A script calls `list` after `note.write`, and `write` as its last
-- step, so that many jobs share one ZADD. As a record, an index never keeps a job from being settled.
local now, ENDED_MOST = ...
local indexes = {}

-- The keys `pyworkers:job:JID` and `pyworkers:ended:STATE` begin with the same namespace.
local function list(index, record, state, life)
  local entries = indexes[index]
  if not entries then
    entries = {size = 0, life = 0, jid_at = #index - #state - #'ended:' + #'job:' + 1}
    indexes[index] = entries
  end
  if life ~= entries.last_life then
    entries.last_life, entries.life = life, math.max(entries.life, life)
  end
  local size = entries.size
  entries[size + 1], entries[size + 2], entries.size = now, string.sub(record, entries.jid_at), size + 2
end

-- The records live for different times, and an index does not know for how long each. So it lives twice as long as its
-- longest record from the end of that job on: then no entry that is older than what is left of this has a record.
local function trim(key, life)
  redis.pcall('ZREMRANGEBYRANK', key, '0', -ENDED_MOST - 1)
  local left = redis.pcall('TTL', key)
  if type(left) ~= 'number' or left < 2 * life then
    redis.pcall('EXPIRE', key, string.format('%d', 2 * life))
    if type(left) == 'number' then left = 2 * life end
  end
  if type(left) == 'number' then
    redis.pcall('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', now - left))
  end
end

local function write()
  for key, entries in pairs(indexes) do
    for from = 1, entries.size, 1000 do
      redis.pcall('ZADD', key, unpack(entries, from, math.min(entries.size, from + 999)))
    end
    trim(key, entries.life)
  end
end

return {list = list, write = write}
