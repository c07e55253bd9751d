-- Commands of a term that are no script, in one step: behind fence.lua, which refuses them when the term is over.
-- KEYS: the keys of the commands
-- ARGV: 'all' (the first error ends the script) or 'each', then of each command how many words it has, and its words
-- Answer: the reply to each command
local answer, i = {}, 2
while i <= #ARGV do
  local last = i + ARGV[i]
  local reply = redis.pcall(unpack(ARGV, i + 1, last))
  if ARGV[1] == 'all' and type(reply) == 'table' and reply.err then return reply end
  answer[#answer + 1] = reply
  i = last + 1
end
return answer
