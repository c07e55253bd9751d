-- For scripts with which runs begin and end, see begin_calls.py. A call without an answer may still be on its way
-- while its job is requeued, fetched again, run and ended. Before the process goes on it calls again, and that call has a
-- higher number than the old copy.
-- `unanswered`: how many calls of the identity had no answer when this one was sent. Returns the answer to a call that
-- comes after one with a higher number: nothing is to be done then. The process asks again, if it still waits. Where the
-- number cannot be kept, as on a server that is out of memory, the call goes on.
local function answer(receipt, unanswered, life)
  local known = tonumber(redis.call('GET', receipt) or 0)
  if tonumber(unanswered) < known then return {'late', known} end
  if tonumber(unanswered) > known then redis.pcall('SET', receipt, unanswered, 'EX', life) end
end

-- Whether a job is in progress in this list: else it has ended, or runs elsewhere.
local function is_in_progress(list, raw)
  local place = redis.pcall('LPOS', list, raw, 'RANK', '-1')
  if type(place) ~= 'table' then return place end
  for _, one in ipairs(redis.call('LRANGE', list, '0', '-1')) do -- the access rules do not allow LPOS
    if one == raw then return true end
  end
end

return {answer = answer, is_in_progress = is_in_progress}
