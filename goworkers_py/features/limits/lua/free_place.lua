-- Ends the place of a block of code in a slot.
-- KEYS: receipt, queues, then keys of the slot    ARGV: number and its life, see late.lua, jid, the slot, see limit.lua
-- A block leaves once, and later copies find nothing. It says its number, so that a late copy of its begin is refused.
-- For fragments: QUEUES, FIXED, arguments
local QUEUES, FIXED, arguments = KEYS[2], 2, ARGV
local late, limit, LET_GO_MOST = ...
local jid = ARGV[3]
late.answer(KEYS[1], ARGV[1], ARGV[2])
local slot = limit.at(4)
if limit.waiting_block(slot) == jid then -- it has given up
  redis.call('HDEL', slot.places, 'b')
  if limit.read_settings(slot) then limit.let_go(slot, LET_GO_MOST) end
  limit.tidy(slot)
end
limit.free_place(slot, jid)
return 1
