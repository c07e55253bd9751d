-- Publishes unique jobs to one place, of pushes that do not happen while another job holds the lock: what publish.lua
-- does, without the parts that other ties need. Nearly every push of a unique job is such, and Redis takes half of its
-- time to make functions that are not called.
-- KEYS: queues, the queue or the schedule, then the lock of each job
-- ARGV: the name of the queue, when the jobs are due ('': now), the time of the push by the producer's clock, then for each
--       job: jid, payload, life of its lock, and the jid of a holder that does not count
-- Answer: for each job 1, or how it met the lock, and the holder as {jid, queue, at, due}
local now = ARGV[3]
-- include lock.lua
local goal, queue, due = KEYS[2], ARGV[1], ARGV[2]
local answer, taken, entries = {}, {}, {}

-- No job is pushed, so no lock may stay.
local function give_up(failed)
  for key, jid in pairs(taken) do free_lock(key, jid) end
  return {err = failed}
end

for at = 1, #KEYS - 2 do
  local key, first = KEYS[at + 2], 4 * at
  local jid, payload, life, instead_of = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  local other, held, unread
  if redis.pcall('EXISTS', key) ~= 0 then other, held, unread = other_holder(key, '', instead_of) end
  if unread then return give_up(unread) end
  if other then
    answer[at] = {'held', unpack(other)}
  else
    local failed = take_lock(key, jid, life, queue, due, '', held)
    if failed then return give_up(failed) end
    answer[at], taken[key] = 1, jid
    if due ~= '' then entries[#entries + 1] = due end
    entries[#entries + 1] = payload
  end
end

if #entries > 0 then
  local reply
  if due == '' then
    redis.pcall('SADD', KEYS[1], queue)
    reply = redis.pcall('LPUSH', goal, unpack(entries))
  else
    reply = redis.pcall('ZADD', goal, unpack(entries))
  end
  if type(reply) == 'table' then return give_up(reply.err) end
end
return answer
