-- Removes entries of an index of ended jobs, see ended.lua. An entry that got another time meanwhile stays: its job was
-- pushed anew, and has ended again.
-- KEYS: index
-- ARGV: for each entry its jid and its time, as the index has it
-- Answer: how many were removed
local removed = 0
for i = 1, #ARGV, 2 do
  if redis.call('ZMSCORE', KEYS[1], ARGV[i])[1] == ARGV[i + 1] then
    removed = removed + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return removed
