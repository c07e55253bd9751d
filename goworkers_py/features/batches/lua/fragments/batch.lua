-- The record of a batch is a hash:
--   v, name, at               the version, what people call it, when it was opened
--   total                     how many jobs it has got
--   succeeded, failed, cancelled, expired    how many of them have ended so
--   holds                     how many keep it open; `hold:NAME` is one of those. Empty: it has ended, and a
--                             copy of the call that began it may still arrive
--   ended, stopped            when it ended, and when it was cancelled
--   late:NAME                 a job, or a batch inside, whose failure came too late to be counted
--   retain                    for how many seconds it is kept after its end
--   EVENT, EVENT:queue        a callback that was not pushed: its payload without `enqueued_at`
--   ms                        `enqueued_at` is written in milliseconds
--   to                        the queues of the callbacks of the batch and of those around it, as a JSON list
-- A batch of another version is left alone. What is written here may fail alone: it keeps no job from being settled.
local key_at, arguments, now, QUEUES, KEPT_S, BATCH_V, BATCH_DEATHS = ...
local BATCH_FIELDS = {'v', 'holds', 'total', 'succeeded', 'failed', 'cancelled', 'expired', 'ended', 'stopped', 'retain'}

-- The place of a batch that a job joins: the number of the set of batches, how many levels, and for each level, from the
-- batch outwards, its name and the numbers of its record and of its deaths. The second result is where the place ends.
local function joined_place(at)
  local place = {batches = key_at(at)}
  at = at + 1
  for level = 1, arguments[at] do
    place[level] = {bid = arguments[at + 1], key = key_at(at + 2), deaths = key_at(at + 3)}
    at = at + 3
  end
  return place, at
end

-- The place of a batch that may end: the same, then the numbers of the tombstones, their version and the schedule; how
-- many queues, and the name and the number of each.
local function batch_place(first)
  local place, at = joined_place(first)
  place.queues, place.tombstones, place.version, place.schedule = {}, key_at(at + 1), key_at(at + 2), key_at(at + 3)
  at = at + 4
  for _ = 1, arguments[at] do
    place.queues[arguments[at + 1]] = key_at(at + 2)
    at = at + 2
  end
  return place, at
end

-- The end of a job in a batch or a chain is several writes, and half of them would leave it open for ever. So the script
-- tries the commands first, by calls that change nothing. Returns the error, if any. A record that is not there, is of
-- another version, or is no hash, is not written. HDEL first: a server that is out of memory allows the others after it.
local function count_refusal(key, field, v)
  local version = redis.pcall('HGET', key, 'v')
  if type(version) == 'table' then return not string.find(version.err, '^WRONGTYPE') and version.err end
  if version ~= v then return false end
  local replies = {
    redis.pcall('HDEL', key, ''), redis.pcall('HMGET', key, 'v'), redis.pcall('HEXISTS', key, 'v'),
    redis.pcall('HSET', key, 'v', v), redis.pcall('HSETNX', key, 'v', v), redis.pcall('HINCRBY', key, field, '0'),
  }
  for _, reply in ipairs(replies) do
    if type(reply) == 'table' and reply.err then return reply.err end
  end
  return false
end

-- Lists a new batch or chain, and takes the forgotten ones off the list. Where that, or a count in its record, is not
-- allowed, nothing stays. Returns the error, if any.
local function list_new(key, field, v, set, life, name)
  local failed = count_refusal(key, field, v)
  if not failed then
    local cleaned, listed = redis.pcall('ZREMRANGEBYSCORE', set, '-inf', now), redis.pcall('ZADD', set, now + life, name)
    failed = (type(cleaned) == 'table' and cleaned.err) or (type(listed) == 'table' and listed.err)
  end
  if failed then
    redis.pcall('ZREM', set, name)
    -- This deletes it at once, also where DEL is not allowed.
    redis.call('EXPIRE', key, '0')
  end
  return failed
end

local function read_batch(key)
  local values = redis.pcall('HMGET', key, unpack(BATCH_FIELDS))
  if values.err or values[1] ~= BATCH_V then return end
  local batch = {}
  for i, name in ipairs(BATCH_FIELDS) do batch[name] = tonumber(values[i] or 0) or 0 end
  batch.pending = batch.total - batch.succeeded - batch.failed - batch.cancelled - batch.expired
  return batch
end

-- The second result is the error, if it cannot be read.
local function takes_jobs(key)
  local values = redis.pcall('HMGET', key, 'v', 'ended', 'stopped')
  return not values.err and values[1] == BATCH_V and not values[2] and not values[3], values.err
end

local function keep_batch(place, level, life)
  local own = place[level]
  redis.pcall('EXPIRE', own.key, life)
  redis.pcall('EXPIRE', own.deaths, life)
  redis.pcall('ZADD', place.batches, now + life, own.bid)
end

-- By the key of a batch, for the rest of the script.
local joinable = {}

-- Whether the batch takes a job. Its place begins at this argument. The second result is the error, if a record cannot be
-- read.
local function may_join(key, at)
  if joinable[key] == nil then
    local place, takes, failed = joined_place(at), true, nil
    for _, around in ipairs(place) do
      if takes then takes, failed = takes_jobs(around.key) end
    end
    if failed then return false, failed end
    for level = 1, takes and #place or 0 do keep_batch(place, level, KEPT_S) end
    joinable[key] = takes
  end
  return joinable[key]
end

-- An event of a batch is one of those around it too.
local function keep_around(place, level)
  for around = level + 1, #place do
    if takes_jobs(place[around].key) then keep_batch(place, around, KEPT_S) end
  end
end

-- Whether the batch, or one around it, was cancelled.
local function is_stopped(place, level)
  for at = level, #place do
    if redis.pcall('HEXISTS', place[at].key, 'stopped') == 1 then return true end
  end
  return false
end

-- Pushes a callback that was not pushed. It stays in the record where no push is possible.
local function fire(place, level, event)
  local key = place[level].key
  local values = redis.pcall('HMGET', key, event, event .. ':queue', 'ms')
  if values.err or not values[1] or is_stopped(place, level) then return end
  local stamp = values[3] and string.format('%.0f', now * 1000) or now
  local payload, queue, reply = string.sub(values[1], 1, -2) .. ',"enqueued_at":' .. stamp .. '}', values[2], nil
  if place.queues[queue] then
    redis.pcall('SADD', QUEUES, queue)
    reply = redis.pcall('LPUSH', place.queues[queue], payload)
  end
  if type(reply) ~= 'number' then reply = redis.pcall('ZADD', place.schedule, now, payload) end
  if type(reply) == 'number' then redis.pcall('HDEL', key, event, event .. ':queue') end
end

local function forget_batch_tombstone(place, level)
  local bid = place[level].bid
  if redis.pcall('HDEL', place.tombstones, bid) == 1 then
    redis.pcall('SET', place.version, now .. ' ' .. bid) -- see tombstone.lua
  end
end

-- Ends the batch. Returns how it counts in its parent.
local function finish_batch(place, level, batch)
  local key, all = place[level].key, batch.succeeded == batch.total
  joinable[key] = false
  redis.pcall('HSET', key, 'ended', now)
  fire(place, level, 'complete')
  if all then fire(place, level, 'success') end
  if batch.stopped > 0 and batch.pending < 1 then forget_batch_tombstone(place, level) end
  -- Its dead jobs may be retried by hand.
  keep_batch(place, level, math.max(batch.retain, batch.failed > 0 and KEPT_S or 1))
  if batch.stopped > 0 then return 'cancelled' end
  return all and 'succeeded' or batch.failed > 0 and 'failed' or 'cancelled'
end

-- A failed job has succeeded after all. Returns whether the batch has succeeded by that, after its end.
local function revive_in_batch(place, level, batch)
  local key = place[level].key
  if batch.failed < 1 or type(redis.pcall('HINCRBY', key, 'failed', '-1')) == 'table' then return false end
  redis.pcall('HINCRBY', key, 'succeeded', '1')
  if batch.ended == 0 or batch.succeeded + 1 < batch.total or batch.stopped > 0 then return false end
  fire(place, level, 'success')
  keep_batch(place, level, math.max(batch.retain, 1))
  return true
end

-- Counts ends of jobs. Returns how the batch counts in its parent, if it has ended by that.
local function count_in_batch(place, level, batch, way, amount, death)
  local key = place[level].key
  amount = math.min(amount, batch.pending)
  if amount < 1 or batch.ended > 0 then return end
  if type(redis.pcall('HINCRBY', key, way, amount)) == 'table' then return end
  batch[way], batch.pending = batch[way] + amount, batch.pending - amount
  if death ~= '' then
    redis.pcall('LPUSH', place[level].deaths, death)
    redis.pcall('LTRIM', place[level].deaths, '0', BATCH_DEATHS - 1)
  end
  if way == 'failed' then fire(place, level, 'death') end
  if batch.pending < 1 and batch.holds < 1 then return finish_batch(place, level, batch) end
  keep_batch(place, level, KEPT_S)
  keep_around(place, level)
end

-- A failure that is not counted is noted, because the job may be retried by hand: its success must not take the failure
-- of another job off the count. Returns whether that is so.
local function is_late(key, batch, way, name)
  if way == 'revived' then return redis.pcall('HDEL', key, 'late:' .. name) == 1 end
  if way ~= 'failed' or name == '' or (batch.pending > 0 and batch.ended == 0) then return false end
  redis.pcall('HSET', key, 'late:' .. name, now)
  return true
end

-- Counts the ends of jobs in a batch; where the batch ends by that, counts its end in the one around it, and so on.
-- `name`: the jid of a job that has failed, if it may be retried by hand, or was revived.
local function end_in_batch(place, level, way, amount, death, name)
  while way and level <= #place do
    local batch = read_batch(place[level].key)
    if not batch or is_late(place[level].key, batch, way, name) then return end
    if way == 'revived' then
      way = revive_in_batch(place, level, batch) and way
    else
      way = count_in_batch(place, level, batch, way, amount, death)
    end
    level, amount, death, name = level + 1, 1, '', place[level].bid
  end
end

return {
  V = BATCH_V, joined_place = joined_place, place = batch_place, count_refusal = count_refusal, list_new = list_new,
  read = read_batch, takes_jobs = takes_jobs, keep = keep_batch, may_join = may_join, keep_around = keep_around,
  is_stopped = is_stopped, finish = finish_batch, end_in = end_in_batch,
}
