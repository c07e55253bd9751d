-- Deletes members of a group or a set by their exact bytes.
-- KEYS: hash of the group, list of the members, the class's groups, registry of classes, queues, then keys of effects
-- ARGV: the entry, class, '1' for a set, then for each member: its payload, how many arguments its effects have, and
--       these, see effects.lua
-- Answer: for each member 1: deleted, 0: not there
local QUEUES, FIXED, SIZE, TRIAL, OUTBOXES, arguments = KEYS[5], 5, 2, nil, nil, ARGV
local function refusal()
  return false
end
local effects, group = ...
local HASH, LIST, GROUPS, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local entry, class, is_set = unpack(ARGV)
local answer, i = {}, 4
while i <= #ARGV do
  local failed = effects.refusal(i + SIZE, i + SIZE - 1 + ARGV[i + 1])
  if failed then return {err = failed} end
  i = i + SIZE + ARGV[i + 1]
end
i = 4
while i <= #ARGV do
  local member, first, last = ARGV[i], i + SIZE, i + SIZE - 1 + ARGV[i + 1]
  local gone = redis.call('LREM', LIST, '1', member)
  if gone == 1 then effects.apply(first, last) end
  answer[#answer + 1] = gone
  i = last + 1
end
if redis.pcall('LLEN', LIST) == 0 then
  if is_set == '1' then redis.pcall('ZREM', GROUPS, entry) else group.forget(HASH, GROUPS, entry) end
  group.forget_class(REGISTRY, GROUPS, class)
end
effects.finish()
return answer
