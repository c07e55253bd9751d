-- Deletes members of a group or a set by their exact bytes.
-- KEYS: hash of the group, list of the members, the class's groups, registry of classes, queues, then the records of
--       jobs that may be tracked, then keys of effects
-- ARGV: the entry, class, life of the record of a deleted job, the reason for its timeline, '1' for a set, how many
--       records, the number of the index of cancelled jobs among the keys of effects (0: none), then for each member:
--       number of its record (0: none), its payload, how many arguments its effects have, and these, see effects.lua
-- Answer: for each member 1: deleted, 0: not there
local QUEUES, OF_RECORDS, SIZE, arguments = KEYS[5], 5, 3, ARGV
local FIXED, TRIAL, OUTBOXES = OF_RECORDS + ARGV[6], nil, nil
local function refusal()
  return false
end
local effects, ended, group, note = ...
local INDEX = ARGV[7] ~= '0' and KEYS[FIXED + ARGV[7]]
local HASH, LIST, GROUPS, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local entry, class, life, reason, is_set = unpack(ARGV)
local answer, i = {}, 8
while i <= #ARGV do
  local failed = effects.refusal(i + SIZE, i + SIZE - 1 + ARGV[i + 2])
  if failed then return {err = failed} end
  i = i + SIZE + ARGV[i + 2]
end
i = 8
while i <= #ARGV do
  local record, member, first, last = tonumber(ARGV[i]), ARGV[i + 1], i + SIZE, i + SIZE - 1 + ARGV[i + 2]
  local gone = redis.call('LREM', LIST, '1', member)
  if gone == 1 then
    if record > 0 and note.is_live(KEYS[OF_RECORDS + record]) then
      note.write(KEYS[OF_RECORDS + record], life, 'cancelled', reason, {})
      ended.list(INDEX, KEYS[OF_RECORDS + record], 'cancelled', life)
    end
    effects.apply(first, last)
  end
  answer[#answer + 1] = gone
  i = last + 1
end
if redis.pcall('LLEN', LIST) == 0 then
  if is_set == '1' then redis.pcall('ZREM', GROUPS, entry) else group.forget(HASH, GROUPS, entry) end
  group.forget_class(REGISTRY, GROUPS, class)
end
effects.finish()
return answer
