-- Publishes one job that has a lock and no other tie, and that does not wait for the end of another holder of the lock:
-- what publish_one.lua does, without the parts that other ties need.
-- KEYS: queues, the queue or the schedule, the lock; for `replace` the schedule
-- ARGV: the name of the queue, when the job is due ('': now), the time of the push by the producer's clock, jid, payload,
--       how long the lock lasts from the time on at which the job is due, the jid of a holder that does not count; for
--       `replace` the fields
-- Answer: 1, or how it met the lock, and the holder as {jid, queue, at, due}
local key, queue, due, jid, payload, for_s, fields = KEYS[3], ARGV[1], ARGV[2], ARGV[4], ARGV[5], ARGV[6], ARGV[8]
local take_lock, make_lock, make_replace = ...
local other, held, failed, reply
if redis.pcall('EXISTS', key) ~= 0 then
  local how = 'held'
  other, held, failed = make_lock().other_holder(key, '', ARGV[7])
  if other and fields then
    local replaced
    replaced, failed = make_replace()(key, KEYS[4], fields, for_s, due)
    if replaced then how = 'replaced' end
  end
  if failed then return {err = failed} end
  if other then return {how, unpack(other)} end
end
local now = due == '' and ARGV[3] or redis.call('TIME')[1]
failed = take_lock(key, jid, for_s, queue, now, due, fields and payload or '', held)
if failed then return {err = failed} end
if due ~= '' then
  reply = redis.pcall('ZADD', KEYS[2], due, payload)
else
  redis.pcall('SADD', KEYS[1], queue)
  reply = redis.pcall('LPUSH', KEYS[2], payload)
end
if type(reply) == 'table' then -- no job is pushed, so no lock may stay
  make_lock().free(key, jid)
  return {err = reply.err}
end
return 1
