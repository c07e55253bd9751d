-- The effects of the end of a run on the lock of its job.
local arguments, lock, lock_life, row_numbers, FIXED = ...

local function free(key, jid)
  lock.free(key, jid)
end

-- The values: how long the lock lasts from the time on at which the job is due, and that time ('': now).
local function keep(key, jid, first)
  lock_life.keep(key, jid, arguments[first], arguments[first + 1])
end

-- Frees the locks of items of rows that were removed. Returns where the next row or item begins.
local function rows(i, settled)
  local numbers, key, jid = row_numbers(arguments[i]), FIXED + arguments[i + 1], i + 2
  for _, number in ipairs(numbers) do
    if not settled.stays[number] then lock.free(KEYS[key], arguments[jid]) end
    key, jid = key + 1, jid + 1
  end
  return jid
end

return {free = {apply = free}, keep = {apply = keep}, frees = rows}
