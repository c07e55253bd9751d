-- Looks at a slot: frees the places of owners that have no lease, and of jobs that were found nowhere, and lets jobs of
-- the line go.
-- KEYS: queues, then keys of the slot, and leases, in any order
-- ARGV: how many owners, how many jobs at most to let go, the slot, see limit.lua, then for each place that may be free:
--       its jid, its value when it was read, and the number of the lease (0: its job was found nowhere)
-- Answer: how many jobs were let go, how many are in the line
-- include note.lua
-- include lock.lua
local QUEUES, FIXED, arguments = KEYS[1], 1, ARGV
-- include push.lua
local slot, at = slot_at(3)
if not read_settings(slot) then
  look_later(slot)
  return {0, redis.call('LLEN', slot.line)}
end
for i = at, #ARGV, 3 do
  local field, lease = 's:' .. ARGV[i], tonumber(ARGV[i + 2])
  if redis.call('HGET', slot.places, field) == ARGV[i + 1] then
    if lease == 0 then
      redis.call('HDEL', slot.places, field)
    elseif redis.call('EXISTS', KEYS[FIXED + lease]) == 0 then
      -- The job of a strict limit is recovered, and its line waits for it.
      if slot.holds then hold_place(slot, ARGV[i]) else redis.call('HDEL', slot.places, field) end
    end
  end
end
slot.looks = true
local count = let_go(slot, tonumber(ARGV[2]))
if count == 0 and redis.call('LLEN', slot.line) == 0 then look_later(slot) end -- else `let_go` has done it
tidy(slot)
return {count, redis.call('LLEN', slot.line)}
