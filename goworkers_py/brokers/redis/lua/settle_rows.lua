-- Settles rows of items that are only removed: what settle.lua does, without the parts that other items need. Nearly every
-- batch is such, and Redis takes a tenth of its time to make functions that are not called.
-- KEYS, ARGV and answer: those of settle.lua
-- include settle_start.lua
local i = 6
while i <= #arguments do i = end_row(i) end
-- include settle_end.lua
