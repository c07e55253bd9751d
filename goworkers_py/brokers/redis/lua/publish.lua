-- Publishes jobs of which some have ties, see push.lua. A job meets the locks and ids of the jobs before it. All or none
-- are pushed: each push is checked before the first one.
-- KEYS: queues, a key that never exists, then queues, the schedule, and the keys of ties, in any order
-- ARGV: the pushes
-- Answer: for each job that of push.lua
-- For fragments: QUEUES, TRIAL, FIXED, arguments
local QUEUES, TRIAL, FIXED, arguments = KEYS[1], KEYS[2], 2, ARGV
local push, check_push = ...
local answer, first = {}, 1
while first <= #ARGV do
  local failed = check_push(first)
  if failed then return {err = failed} end
  first = first + 5 + ARGV[first + 4]
end
first = 1
while first <= #ARGV do
  local result, failed = push(first, 'pushed')
  if failed then return {err = failed} end
  answer[#answer + 1] = result
  first = first + 5 + ARGV[first + 4]
end
return answer
