-- Looks at a slot: frees the places of dead owners, and of jobs that were found nowhere, and lets jobs of the line go.
-- KEYS: queues, owners, blocks, gone, then keys of the slot, and leases, in any order
-- ARGV: how many owners, how many jobs at most to let go, the slot, see limit.lua, then for each place that may be free:
--       its jid, its value when it was read, and the number of the lease (0: its job was found nowhere)
-- Answer: how many jobs were let go, how many are in the line
-- For fragments: QUEUES, OWNERS, BLOCKS, GONE, arguments
local QUEUES, OWNERS, BLOCKS, GONE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local FIXED, arguments = 4, ARGV
local holder, limit = ...
local slot, at = limit.at(3)
if not limit.read_settings(slot) then
  limit.look_later(slot)
  return {0, redis.call('LLEN', slot.line)}
end
for i = at, #ARGV, 3 do
  local field, value, lease = 's:' .. ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local owner, queue = string.match(value, '^(%S*) %S+ (.*)$')
  if redis.call('HGET', slot.places, field) == value and (lease == 0 or holder.is_dead(owner, KEYS[FIXED + lease])) then
    -- The job of a strict limit is recovered, and its line waits for it. A block, which has no queue, is not.
    if lease > 0 and slot.holds and queue ~= '' then
      limit.hold_place(slot, ARGV[i])
    else
      redis.call('HDEL', slot.places, field)
    end
  end
end
slot.looks = true
local count = limit.let_go(slot, tonumber(ARGV[2]))
if count == 0 and redis.call('LLEN', slot.line) == 0 then limit.look_later(slot) end -- else `let_go` has done it
limit.tidy(slot)
return {count, redis.call('LLEN', slot.line)}
