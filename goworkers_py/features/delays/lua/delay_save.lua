-- Keeps tasks of a delay queue. Each replaces a task of its id, and a claim on that.
-- KEYS: tasks, due times, claims
-- ARGV: the time from which the due times were counted (see delay_keep.lua), then for each task its id, its due time and
--   its record
-- Answer: the time of this step, then the due time of each task as it is kept
local now, delay_keep = ...
local TASKS, DUE, CLAIMS = KEYS[1], KEYS[2], KEYS[3]
redis.call('ZMSCORE', DUE, '')
redis.call('HGET', CLAIMS, '')
local answer = {now}
for at = 2, #ARGV, 3 do
  local id, due = ARGV[at], delay_keep.kept_due(ARGV[at + 1], ARGV[1])
  redis.call('HSET', TASKS, id, delay_keep.with_due(ARGV[at + 2], 'due', due))
  redis.call('ZADD', DUE, due, id)
  redis.call('HDEL', CLAIMS, id)
  answer[#answer + 1] = due
end
return answer
