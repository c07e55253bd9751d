-- Keeps tasks of a delay queue in the layout of a Go program: in one step each task and, where it is new, its id.
-- KEYS: the list of ids, then the key of each task
-- ARGV: the time from which the due times were counted (see delay_keep.lua), then for each task its id, its due time and
--   its record
-- Answer: the time of this step, then the due time of each task as it is kept
local now, delay_keep = ...
local LIST = KEYS[1]
redis.call('LLEN', LIST)
local answer = {now}
for at = 2, #KEYS do
  local first = 3 * at - 4
  local id, due = ARGV[first], delay_keep.kept_due(ARGV[first + 1], ARGV[1])
  if redis.call('EXISTS', KEYS[at]) == 0 then redis.call('LPUSH', LIST, id) end
  redis.call('SET', KEYS[at], delay_keep.with_due(ARGV[first + 2], 'Due', due))
  answer[#answer + 1] = due
end
return answer
