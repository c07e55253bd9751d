-- One step of a batch that is not the push or the end of a job, see features/batches/contract.py.
-- KEYS: queues, then those of the place of the batch
-- ARGV: the word of the step, the place, see batch.lua, then
--       'open'    the hold, how many fields of the record follow, and these
--       'hold'    the hold
--       'let_go'  the hold, '1': a copy of its 'hold' may still arrive, and holds nothing then
--       'cancel'  its tombstone, seconds that a tombstone lives
--       'close'   '1': the batch ends now
-- Answer: 1: done, 0: the batch is not there, or has ended
-- For fragments: QUEUES, FIXED, arguments
local QUEUES, FIXED, arguments = KEYS[1], 1, ARGV
local now, batch, KEPT_S = ...
local place, last = batch.place(2)
local own, steps = place[1], {}
local key, option = own.key, ARGV[last + 1]

local function all_take_jobs(from)
  for level = from, #place do
    if not batch.takes_jobs(place[level].key) then return false end
  end
  return true
end

local function is_held(hold)
  return (redis.call('HGET', key, hold) or '') ~= ''
end

local function end_if_done(record, force)
  if record.ended == 0 and (force or (record.holds < 1 and record.pending < 1)) then
    batch.end_in(place, 2, batch.finish(place, 1, record), 1, '', own.bid)
  end
end

function steps.open()
  if redis.call('HGET', key, 'v') then return 1 end
  if not all_take_jobs(2) then return 0 end
  redis.call('HSET', key, 'v', batch.V, 'at', now, 'holds', '1', 'hold:' .. option, now,
    unpack(ARGV, last + 3, last + 2 + ARGV[last + 2]))
  local failed = batch.list_new(key, 'total', batch.V, place.batches, KEPT_S, own.bid)
  if failed then return {err = failed} end
  batch.keep(place, 1, KEPT_S)
  if place[2] then redis.call('HINCRBY', place[2].key, 'total', '1') end
  batch.keep_around(place, 1)
  return 1
end

function steps.hold()
  if not all_take_jobs(1) then return 0 end
  if redis.call('HSETNX', key, 'hold:' .. option, now) == 1 then redis.call('HINCRBY', key, 'holds', '1') end
  batch.keep(place, 1, KEPT_S)
  batch.keep_around(place, 1)
  return 1
end

function steps.let_go()
  local record, hold = batch.read(key), 'hold:' .. option
  if not record then return 0 end
  if record.ended > 0 then return 1 end -- it takes no hold any more
  local held = is_held(hold)
  if ARGV[last + 2] == '1' then redis.call('HSET', key, hold, '') elseif held then redis.call('HDEL', key, hold) end
  if held then record.holds = redis.call('HINCRBY', key, 'holds', '-1') end
  end_if_done(record)
  return 1
end

function steps.cancel()
  local record = batch.read(key)
  if not record or record.ended > 0 then return 0 end
  redis.call('HSET', key, 'stopped', now, 'holds', '0')
  redis.call('HSET', place.tombstones, own.bid, option)
  redis.call('EXPIRE', place.tombstones, ARGV[last + 2])
  redis.call('SET', place.version, now .. ' ' .. own.bid)
  redis.pcall('PUBLISH', place.tombstones, option)
  record.stopped, record.holds = tonumber(now), 0
  end_if_done(record)
  return 1
end

function steps.close()
  local record = batch.read(key)
  if not record or record.ended > 0 then return 0 end
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, 5) == 'hold:' and is_held(field) then redis.call('HDEL', key, field) end
  end
  redis.call('HSET', key, 'holds', '0')
  record.holds = 0
  end_if_done(record, option == '1')
  return 1
end

for _, around in ipairs(place) do
  local failed = batch.count_refusal(around.key, 'total', batch.V)
  if failed then return {err = failed} end
end
return steps[ARGV[1]]()
