-- The effects of the end of a run on the place of its job in a slot of a limit. The values of both: the slot. An error, of a
-- damaged key say, must not end the step: a look mends the line later.
local limit = ...

local function leave(_, jid, first)
  pcall(limit.free_place, limit.at(first), jid)
end

local function hold(_, jid, first)
  pcall(limit.hold_place, limit.at(first), jid)
end

return {leave = {apply = leave}, hold = {apply = hold}}
