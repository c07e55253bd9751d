-- A push has ties, at most one of each kind, and each may forbid it or choose its goal. Its arguments: 'back' or
-- 'schedule', number of the goal, the queue or the score, the payload, how many arguments its ties have, and
-- these: each tie begins with its word, the number of its key and how many values follow. The engine folds over the ties
-- in the order in which they come, and knows none of them. A tie has as many of these steps as it needs:
--   decide(job, at)   nothing: the push goes on; 'dropped': it goes on without this tie; else the answer of the push.
--                     The second result is an error. A tie may choose another goal: it sets `step`, `goal` and `name`, or
--                     itself as `goes_by` and its place as `goes_at`, and has a function `put` then
--   take(job, at)     writes what must be there before the job. Returns the error, if any; then nothing is written
--   undo(job, at)     takes that back, because a later step was refused. In reverse order
--   after(job, at)    writes what may fail alone
-- The fifth step, the check, is a fragment of its own, see check_push.lua: all checks come before the first take.
-- `at` is where the tie begins in the arguments. `job` is the table below. In it a tie tells the engine and later steps:
--   answer   what the push answers when it happens
--   moved    the tie has sent the job elsewhere, and no later one may choose another goal
--   group    the name of what the job joins in place of its queue
-- Answer: 1: pushed, 0: a duplicate, -1: its batch takes no jobs, or a list: how it met the lock, then its holder as
-- {jid, queue, at, due}
local key_at, arguments, ties, QUEUES, PUSH_SIZE, TIE_SIZE = ...

-- Returns the answer, or the error as a second value. `reason` is for the timeline of a tracked job. A push that `insists`
-- happens without its batch where that was closed by force.
return function(first, reason, insists)
  local step, name = arguments[first], arguments[first + 2]
  local job = {
    step = step, goal = key_at(first + 1), name = name, payload = arguments[first + 3],
    due = step == 'schedule' and name or '', reason = reason, insists = insists,
  }
  local at, last, places, taken, failed = first + PUSH_SIZE, first + PUSH_SIZE - 1 + arguments[first + 4], {}, 0, nil
  while at <= last do
    local tie, answer = ties[arguments[at]], nil
    if tie.decide then answer, failed = tie.decide(job, at) end
    if failed then return 0, failed end
    if not answer then
      places[#places + 1] = at
    elseif answer ~= 'dropped' then
      return answer
    end
    at = at + TIE_SIZE + arguments[at + 2]
  end

  -- First, so that a job is not pushed twice, or without its lock, where this is refused.
  for i = 1, #places do
    local tie = ties[arguments[places[i]]]
    if tie.take then failed = tie.take(job, places[i]) end
    if failed then break end
    taken = i
  end
  if not failed then
    local reply
    if job.goes_by then
      failed = job.goes_by.put(job, job.goes_at)
    elseif job.step == 'schedule' then
      reply = redis.pcall('ZADD', job.goal, job.name, job.payload)
    else
      redis.pcall('SADD', QUEUES, job.name)
      reply = redis.pcall('LPUSH', job.goal, job.payload)
    end
    failed = failed or (type(reply) == 'table' and reply.err)
  end
  if failed then
    for i = taken, 1, -1 do
      local tie = ties[arguments[places[i]]]
      if tie.undo then tie.undo(job, places[i]) end
    end
    return 0, failed
  end
  for i = 1, #places do
    local tie = ties[arguments[places[i]]]
    if tie.after then tie.after(job, places[i]) end
  end
  return job.answer or 1
end
