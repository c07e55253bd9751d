-- The checks of a push, see push.lua. For each tie there is a table:
--   tries        the commands that the tie calls: they are tried where a script makes several pushes
--   check(at)    the error for which one of its keys cannot be written
--   holder(at)   for a schedule: the job that forbids the push, as {jid, queue, at, due}, and the error
local key_at, arguments, checks, type_error, trial, PUSH_SIZE, TIE_SIZE = ...
local GOALS = {
  back = {asks = 'LLEN', tries = 'ZADD LREM LPUSH LREM'}, schedule = {asks = 'ZCARD', tries = 'ZADD'},
}

-- Returns the error that the push would give, if any: each key that it writes is asked for its type. So a push that
-- cannot be done fails before anything is written.
return function(first)
  local goal = GOALS[arguments[first]]
  local failed = type_error(goal.asks, key_at(first + 1)) or trial.refusal(goal.tries)
  local at, last = first + PUSH_SIZE, first + PUSH_SIZE - 1 + arguments[first + 4]
  while at <= last do
    local tie = checks[arguments[at]]
    failed = failed or trial.refusal(tie.tries) or tie.check(at)
    at = at + TIE_SIZE + arguments[at + 2]
  end
  return failed
end
