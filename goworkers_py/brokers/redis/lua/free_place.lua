-- Ends the place of a block of code in a slot.
-- KEYS: receipt, queues, then keys of the slot    ARGV: number and its life, see late.lua, jid, the slot, see limit.lua
-- A block leaves once, and later copies find nothing. It says its number, so that a late copy of its begin is refused.
-- include note.lua
-- include lock.lua
-- include late.lua
local QUEUES, FIXED, arguments = KEYS[2], 2, ARGV
local jid = ARGV[3]
-- include push.lua
late_answer(KEYS[1], ARGV[1], ARGV[2])
local slot = slot_at(4)
if waiting_block(slot) == jid then -- it has given up
  redis.call('HDEL', slot.places, 'b')
  if read_settings(slot) then let_go(slot, LET_GO_MOST) end
  tidy(slot)
end
free_place(slot, jid)
return 1
