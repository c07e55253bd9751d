-- Publishes one job whose ties take back what they have written before a refusal: what publish.lua does, without a try
-- before. The try would cost the server more than the push.
-- KEYS and ARGV: those of publish.lua
-- Answer: that of push.lua. A list with it would cost the server as much as three commands.
-- For fragments: QUEUES, FIXED, arguments
local QUEUES, FIXED, arguments = KEYS[1], 2, ARGV
local push = ...
local answer, failed = push(1, 'pushed')
if failed then return {err = failed} end
return answer
