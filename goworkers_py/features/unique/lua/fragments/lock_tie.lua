-- A push takes the lock of its job, or meets that of another job. The values: jid, life of the lock, what to do when another
-- job holds it, the jid of a holder that does not count, the number of the schedule, seconds until a job without its lock
-- is tried again, the fields of `replace`, the job's queue.
local key_at, arguments, now, take_lock, make_lock, KEPT_S = ...
local TIE_SIZE = 3

-- The holder of the lock gets the newest fields, if it has not begun. Where it waits for a later time than the newest
-- one, it gets that. (Where it waits for an earlier one, it waits again as it begins.) Returns false for a holder that
-- does not read them, and the error, if any.
local function replace(key, at, due)
  local token = redis.pcall('HGET', key, 'token')
  if type(token) ~= 'string' then return false, token and token.err end
  local reply = redis.pcall('HSET', key, 'fields', arguments[at + 6], 'due', due)
  if type(reply) == 'table' then return false, reply.err end
  local left, life = redis.pcall('TTL', key), math.max(arguments[at + 1], KEPT_S)
  if type(left) == 'number' and left < life then redis.pcall('EXPIRE', key, life) end
  redis.pcall('ZADD', key_at(at + 4), 'XX', 'LT', due == '' and now or due, token)
  return true
end

local function decide(job, tie)
  local key, at = key_at(tie + 1), tie + TIE_SIZE
  if redis.pcall('EXISTS', key) == 0 then return end
  local other, held, failed = make_lock().other_holder(key, '', arguments[at + 3])
  if failed then return nil, failed end
  job.lock_held = held
  if not other then return end
  local how = arguments[at + 2]
  if how == 'replace' then
    local replaced
    replaced, failed = replace(key, at, job.due)
    return {replaced and 'replaced' or 'held', unpack(other)}, failed
  end
  if how ~= 'reschedule' then return {'held', unpack(other)} end
  -- The job is pushed without its lock, and is tried again.
  job.name = string.format('%.6f', math.max(now + arguments[at + 5], tonumber(job.due) or 0))
  job.step, job.goal, job.moved, job.answer = 'schedule', key_at(at + 4), true, {'rescheduled', unpack(other)}
  return 'dropped'
end

local function take(job, tie)
  local at = tie + TIE_SIZE
  local token = arguments[at + 2] == 'replace' and job.payload or ''
  return take_lock(key_at(tie + 1), arguments[at], arguments[at + 1], arguments[at + 7], job.due, token, job.lock_held)
end

local function undo(_, tie)
  make_lock().free(key_at(tie + 1), arguments[tie + TIE_SIZE])
end

return {decide = decide, take = take, undo = undo}
