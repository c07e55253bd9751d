-- How scripts keep a due time. The caller has counted it from `counted_from`, which is the time of
-- the server as the caller guessed it; '' for a due time that stays as it is. Counted from the time of this step, "in
-- 40 s" means 40 s of the server.
local now = ...

local function kept_due(due, counted_from)
  local shift = counted_from == '' and 0 or tonumber(now) - tonumber(counted_from)
  local shifted = tonumber(due) + shift
  return shifted == math.huge and '+inf' or string.format('%.17g', shifted)
end

-- The record of a task comes without its due time and its last brace.
local function with_due(record, name, due)
  return record .. ',"' .. name .. '":' .. (due == '+inf' and 'null' or due) .. '}'
end

return {kept_due = kept_due, with_due = with_due}
