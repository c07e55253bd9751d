-- Deletes entries of a queue by their exact bytes, near the places where the caller has just read them. An LREM for
-- each entry would walk through the whole queue; so LSET replaces them by marks, and one LREM removes all marks.
--
-- KEYS: queue, a key that never exists, queues, then the records of jobs that may be tracked, then keys of effects
-- ARGV: first place to look at, last place (below 0: from the other end, as in LRANGE), a mark that is no job's
--       payload, life of the record of a deleted job, the reason for its timeline, how many records, the number of the
--       index of cancelled jobs among the keys of effects (0: none), then for each entry: number of its record (0:
--       none), the entry, how many arguments its effects have, and these, see effects.lua
-- Answer: for each entry 1: deleted, 0: not found near its place
-- include note.lua
-- include sidekiq_status.lua
-- include ended.lua
-- include lock.lua
local QUEUES, OF_RECORDS, SIZE, arguments = KEYS[3], 3, 3, ARGV
local FIXED = OF_RECORDS + ARGV[6]
local INDEX = ARGV[7] ~= '0' and KEYS[FIXED + ARGV[7]]
-- include push.lua
local function refusal()
  return false
end
-- include effects.lua

local first, mark, life, reason = tonumber(ARGV[1]), ARGV[3], ARGV[4], ARGV[5]
local wanted, records, effects, gone, deleted = {}, {}, {}, {}, 0
-- Where the access rules do not allow LREM, the script fails here, before it marks anything. And a server that is out
-- of memory lets a script go on that has called a write command before.
redis.call('LREM', KEYS[2], '1', mark)
-- The list may have become shorter since its places were read. LRANGE begins at its beginning then, and so must the
-- places. `0 -`, because the sign of -0 would be sent too, which LRANGE refuses.
if first < 0 then first = math.max(first, 0 - redis.call('LLEN', KEYS[1])) end
local entries, i = {}, 8
while i <= #ARGV do
  local entry = ARGV[i + 1]
  entries[#entries + 1] = entry
  wanted[entry] = (wanted[entry] or 0) + 1
  records[entry] = ARGV[i] ~= '0' and KEYS[OF_RECORDS + ARGV[i]]
  effects[entry] = {i + SIZE, i + SIZE - 1 + ARGV[i + 2]}
  local failed = each_effect(effects[entry][1], effects[entry][2], effect_refusal)
  if failed then return {err = failed} end
  i = i + SIZE + ARGV[i + 2]
end
-- Also of a dead job that Sidekiq's page has put back into its queue, which writes no record.
local function may_go_on(key)
  return is_live(key) or redis.pcall('HGET', key, 'state') == 'dead'
end

local follow = {}
for offset, raw in ipairs(redis.call('LRANGE', KEYS[1], first, ARGV[2])) do
  if (wanted[raw] or 0) > 0 then
    wanted[raw], gone[raw] = wanted[raw] - 1, (gone[raw] or 0) + 1
    redis.call('LSET', KEYS[1], first + offset - 1, mark)
    deleted = deleted + 1
    local record = records[raw]
    if record and may_go_on(record) then
      note(record, life, 'cancelled', reason, {})
      list_ended(INDEX, record, 'cancelled', life)
    end
    follow[#follow + 1] = effects[raw]
  end
end
-- From the end of the list to which the places are nearer: LREM looks at each entry until it has found all.
if deleted > 0 then redis.call('LREM', KEYS[1], first < 0 and -deleted or deleted, mark) end
-- Last: an effect may push to this queue, which moves its places.
for _, one in ipairs(follow) do each_effect(one[1], one[2], apply) end
write_ended()
local answer = {}
for _, entry in ipairs(entries) do
  local found = (gone[entry] or 0) > 0
  if found then gone[entry] = gone[entry] - 1 end
  answer[#answer + 1] = found and 1 or 0
end
return answer
