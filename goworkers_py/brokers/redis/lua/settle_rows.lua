-- Settles rows of items that are only removed: what settle.lua does, without the parts that other items need. Nearly every
-- batch is such, and Redis takes a tenth of its time to make functions that are not called.
-- KEYS, ARGV and answer: those of settle.lua
-- For fragments: RECEIPT, NOTHING, FIXED, TRIAL, QUEUES, number, day_life, receipt_life
local RECEIPT, NOTHING = KEYS[9], KEYS[10]
local FIXED, TRIAL, QUEUES, arguments, number, day_life, receipt_life = 10, KEYS[10], KEYS[2], ARGV, ARGV[1], ARGV[4], ARGV[5]
local receipt, rows, row_handlers, finishers = ...
local known = receipt.answer()
if known then return known end
local i = 6
while i <= #arguments do
  local handle = row_handlers[arguments[i]]
  i = handle and handle(i + 1, rows.settled) or rows.end_row(i)
end
for _, finish in ipairs(finishers) do finish() end
return receipt.finish(rows.settled)
