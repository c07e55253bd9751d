-- Pushes a chain, or cancels it, see features/chains/contract.py.
-- KEYS: queues, then those of the place of the chain
-- ARGV: the place, see chain.lua, then 'push' and the fields of the record, or 'cancel', the tombstone of the chain and
--       the seconds that a tombstone lives
-- Answer: 1: done, 0: the batch takes no jobs; the chain is not there, or has ended
-- For fragments: QUEUES, FIXED, arguments
local QUEUES, FIXED, arguments = KEYS[1], 1, ARGV
local now, batch, chain, KEPT_S, AT_ONCE = ...
local place, last = chain.place(1)
local key, steps = place.key, {}

function steps.push()
  if redis.call('HGET', key, 'v') then return 1 end
  local joins, failed = true, nil
  if place.batch then joins, failed = batch.may_join(place.batch[1].key, place.joins) end
  failed = failed or (place.batch and batch.count_refusal(place.batch[1].key, 'total', batch.V))
  failed = failed or chain.push_refusal(place)
  if failed then return {err = failed} end
  if not joins then return 0 end
  redis.call('HSET', key, 'v', chain.V, 'at', now)
  failed = batch.list_new(key, 'open', chain.V, place.chains, KEPT_S, place.cid)
  if failed then return {err = failed} end
  for first = last + 2, #ARGV, AT_ONCE do
    redis.call('HSET', key, unpack(ARGV, first, math.min(#ARGV, first + AT_ONCE - 1)))
  end
  chain.begin_link(place, chain.read(key), '')
  return 1
end

function steps.cancel()
  local record = chain.read(key)
  if not record or record.state == 'ended' or record.state == 'cancelled' then return 0 end
  redis.call('HSET', place.tombstones, place.cid, ARGV[last + 2])
  redis.call('EXPIRE', place.tombstones, ARGV[last + 3])
  redis.call('SET', place.version, now .. ' ' .. place.cid)
  redis.call('HSET', key, 'state', 'cancelled', 'ended', now) -- last: it is asked for again where this is refused
  redis.pcall('PUBLISH', place.tombstones, ARGV[last + 2])
  chain.keep(place, KEPT_S)
  return 1
end

local refused = batch.count_refusal(key, 'open', chain.V)
if refused then return {err = refused} end
return steps[ARGV[last + 1]]()
