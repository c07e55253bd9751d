-- Pushes a chain, or cancels it, see brokers/contracts/chains.py.
-- KEYS: queues, then those of the place of the chain
-- ARGV: the place, see chain.lua, then 'push' and the fields of the record, or 'cancel', the tombstone of the chain and
--       the seconds that a tombstone lives
-- Answer: 1: done, 0: the batch takes no jobs; the chain is not there, or has ended
-- include note.lua
local QUEUES, FIXED, arguments = KEYS[1], 1, ARGV
local function key_at(at)
  return KEYS[FIXED + arguments[at]]
end
-- include batch.lua
-- include chain.lua
local place, last = chain_place(1)
local key, steps, AT_ONCE = place.key, {}, 1000

function steps.push()
  if redis.call('HGET', key, 'v') then return 1 end
  local joins, failed = true, nil
  if place.batch then joins, failed = may_join(place.batch[1].key, place.joins) end
  failed = failed or (place.batch and count_refusal(place.batch[1].key, 'total'))
  if failed then return {err = failed} end
  if not joins then return 0 end
  redis.call('HSET', key, 'v', CHAIN_V, 'at', now)
  failed = list_new(key, 'open', place.chains, CHAIN_LIVES_S, place.cid)
  if failed then return {err = failed} end
  for first = last + 2, #ARGV, AT_ONCE do
    redis.call('HSET', key, unpack(ARGV, first, math.min(#ARGV, first + AT_ONCE - 1)))
  end
  begin_link(place, read_chain(key), '')
  return 1
end

function steps.cancel()
  local chain = read_chain(key)
  if not chain or chain.state == 'ended' or chain.state == 'cancelled' then return 0 end
  redis.call('HSET', place.tombstones, place.cid, ARGV[last + 2])
  redis.call('EXPIRE', place.tombstones, ARGV[last + 3])
  redis.call('SET', place.version, now .. ' ' .. place.cid)
  redis.call('HSET', key, 'state', 'cancelled', 'ended', now) -- last: it is asked for again where this is refused
  redis.pcall('PUBLISH', place.tombstones, ARGV[last + 2])
  keep_chain(place, CHAIN_LIVES_S)
  return 1
end

local refused = count_refusal(key, 'open')
if refused then return {err = refused} end
return steps[ARGV[last + 1]]()
