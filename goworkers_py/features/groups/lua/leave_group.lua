-- Deletes members of a group or a set by their exact bytes.
-- KEYS: hash of the group, list of the members, the class's groups, registry of classes, queues, a key that never exists,
--       then keys of effects
-- ARGV: the entry, class, '1' for a set, then for each member: its payload, how many arguments its effects have, and
--       these, see effects.lua
-- Answer: for each member 1: deleted, 0: not there; or an error. An effect may be refused after all: its member went back,
--       and the others are gone.
-- For fragments: QUEUES, FIXED, TRIAL, OUTBOXES, arguments
local QUEUES, NOTHING, FIXED, TRIAL, OUTBOXES, arguments = KEYS[5], KEYS[6], 6, KEYS[6], nil, ARGV
local effects, applied, group = ...
local HASH, LIST, GROUPS, REGISTRY, SIZE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], 2
local entry, class, is_set = unpack(ARGV)

-- Where the access rules do not allow RPUSH for the way back, the script fails here, before it writes anything. And a
-- server that is out of memory lets a script go on that has called a write command before.
redis.call('LREM', NOTHING, '0', '')
redis.call('RPUSH', NOTHING, '')
redis.call('LREM', NOTHING, '0', '')

local answer, i = {}, 4
while i <= #ARGV do
  local failed = effects.refusal(i + SIZE, i + SIZE - 1 + ARGV[i + 1])
  if failed then return {err = failed} end
  i = i + SIZE + ARGV[i + 1]
end
i = 4
local refused_effect
while i <= #ARGV do
  local member, first, last = ARGV[i], i + SIZE, i + SIZE - 1 + ARGV[i + 1]
  local gone = redis.call('LREM', LIST, '1', member)
  local failed = gone == 1 and applied(first, last)
  if failed then
    redis.call('RPUSH', LIST, member)
    refused_effect = failed
  end
  answer[#answer + 1] = gone
  i = last + 1
end
if redis.pcall('LLEN', LIST) == 0 then
  if is_set == '1' then redis.pcall('ZREM', GROUPS, entry) else group.forget(HASH, GROUPS, entry) end
  group.forget_class(REGISTRY, GROUPS, class)
end
effects.finish()
if refused_effect then return {err = refused_effect} end
return answer
