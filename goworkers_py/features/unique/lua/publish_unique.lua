-- Publishes unique jobs to one place, of pushes that do not happen while another job holds the lock: what publish.lua
-- does, without the parts that other ties need. It is for several pushes; push_unique.lua is for one.
-- KEYS: queues, the queue or the schedule, then the lock of each job
-- ARGV: the name of the queue, when the jobs are due ('': now), the time of the push by the producer's clock, then for each
--       job: jid, payload, how long its lock lasts from the time on at which the job is due, and the jid of a holder that
--       does not count
-- Answer: for each job 1, or how it met the lock, and the holder as {jid, queue, at, due}
local take_lock, make_lock = ...
local goal, queue, due, answer, entries = KEYS[2], ARGV[1], ARGV[2], {}, {}
local now = due == '' and ARGV[3] or redis.call('TIME')[1]

-- No job is pushed, so no lock may stay.
local function give_up(failed)
  for at = 1, #answer do
    if answer[at] == 1 then make_lock().free(KEYS[at + 2], ARGV[4 * at]) end
  end
  return {err = failed}
end

for at = 1, #KEYS - 2 do
  local key, first = KEYS[at + 2], 4 * at
  local other, held, failed
  if redis.pcall('EXISTS', key) ~= 0 then other, held, failed = make_lock().other_holder(key, '', ARGV[first + 3]) end
  if not other and not failed then failed = take_lock(key, ARGV[first], ARGV[first + 2], queue, now, due, '', held) end
  if failed then return give_up(failed) end
  if other then
    answer[at] = {'held', unpack(other)}
  else
    answer[at] = 1
    if due ~= '' then entries[#entries + 1] = due end
    entries[#entries + 1] = ARGV[first + 1]
  end
end

if entries[1] then
  local reply
  if due ~= '' then
    reply = redis.pcall('ZADD', goal, unpack(entries))
  else
    redis.pcall('SADD', KEYS[1], queue)
    reply = redis.pcall('LPUSH', goal, unpack(entries))
  end
  if type(reply) == 'table' then return give_up(reply.err) end
end
return answer
