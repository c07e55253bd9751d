-- Publishes jobs of which some have ties, see push.lua. A job meets the locks and ids of the jobs before it.
-- KEYS: queues, a key that never exists, then queues, the schedule, and the keys of ties, in any order
-- ARGV: the pushes
-- Answer: for each job that of push.lua
-- include note.lua
-- include lock.lua
local QUEUES, FIXED, arguments = KEYS[1], 2, ARGV
-- include push.lua
trial = KEYS[2]
local answer, first = {}, 1
-- All or none. A single push with a lock, an id, a record or a batch tries nothing: it takes back what it has written
-- before a refusal, and this try would cost the server more than the push.
local ties = #ARGV > 0 and ties_of(1)
while first <= #ARGV and (PUSH_SIZE + ARGV[6] < #ARGV or ties.group or ties.slot) do
  local failed = check_push(first)
  if failed then return {err = failed} end
  first = first + PUSH_SIZE + ARGV[first + 5]
end
first = 1
while first <= #ARGV do
  local told, failed = push(first, 'pushed')
  if failed then return {err = failed} end
  answer[#answer + 1] = told
  first = first + PUSH_SIZE + ARGV[first + 5]
end
return answer
