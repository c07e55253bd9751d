-- After runs of tasks of a delay queue: deletes, saves or frees those on which the owner still has this claim.
-- KEYS: tasks, due times, claims
-- ARGV: claim and owner, the time from which the due times were counted (see delay_keep.lua), then for each task its id,
--   its next due time and its record. The time is empty for a task that is deleted, and the record for one that is freed
-- Answer: the time of this step, then for each task the due time with which it was saved, or ''
local now, delay_keep = ...
local TASKS, DUE, CLAIMS = KEYS[1], KEYS[2], KEYS[3]
redis.call('ZMSCORE', DUE, '')
redis.call('HGET', TASKS, '')
local claim, answer = ARGV[1], {now}
for at = 3, #ARGV, 3 do
  local id, due, record, saved = ARGV[at], ARGV[at + 1], ARGV[at + 2], ''
  if redis.call('HGET', CLAIMS, id) == claim then
    if due == '' then
      redis.call('HDEL', TASKS, id)
      redis.call('ZREM', DUE, id)
    elseif record ~= '' then
      saved = delay_keep.kept_due(due, ARGV[2])
      redis.call('HSET', TASKS, id, delay_keep.with_due(record, 'due', saved))
      redis.call('ZADD', DUE, saved, id)
    end
    redis.call('HDEL', CLAIMS, id)
  end
  answer[#answer + 1] = saved
end
return answer
