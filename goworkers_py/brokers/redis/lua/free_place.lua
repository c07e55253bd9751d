-- Ends the place of a block of code in a slot.
-- KEYS: queues, then keys of the slot    ARGV: jid, the slot, see limit.lua
-- include note.lua
-- include lock.lua
local QUEUES, FIXED, arguments = KEYS[1], 1, ARGV
-- include push.lua
local slot = slot_at(2)
if waiting_block(slot) == ARGV[1] then -- it has given up
  redis.call('HDEL', slot.places, 'b')
  if read_settings(slot) then let_go(slot, LET_GO_MOST) end
  tidy(slot)
end
free_place(slot, ARGV[1])
return 1
