-- A push takes the lock of its job, or meets that of another job. The values: jid, how long the lock lasts from
-- the time on at which the job is due, what to do when another job holds it, the jid of a holder that does not count, the
-- number of the schedule, seconds until a job without its lock is tried again, the fields of `replace`, the job's queue.
local key_at, arguments, now, take_lock, make_lock, make_replace, TIE_SIZE = ...

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
    replaced, failed = make_replace()(key, key_at(at + 4), arguments[at + 6], arguments[at + 1], job.due)
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
  local key, queue = key_at(tie + 1), arguments[at + 7]
  return take_lock(key, arguments[at], arguments[at + 1], queue, now, job.due, token, job.lock_held)
end

local function undo(_, tie)
  make_lock().free(key_at(tie + 1), arguments[tie + TIE_SIZE])
end

return {decide = decide, take = take, undo = undo}
