-- The receipt of a settler, and the counters of a settlement.
local RECEIPT, number, day_life, receipt_life = ...

-- Returns the answer where the script is to do nothing.
-- The receipt has the number of the settler's last batch. The same number: the batch is done, its reply was lost, and the
-- settler sends it again. A higher one: this copy of an older batch was long on its way, and nobody waits for its answer.
-- To do either could remove an item of the same bytes that was fetched later. The numbers are compared as numbers: '9' is
-- behind '10' as text.
local function answer()
  local last = redis.call('GET', RECEIPT)
  if last then
    local head = string.find(last, ':', 1, true)
    local ahead = tonumber(string.sub(last, 1, head - 1)) - number
    if ahead == 0 then return cmsgpack.unpack(string.sub(last, head + 1)) end
    if ahead > 0 then return {err = 'late: the settler has settled a later batch'} end
  end
  -- A write that changes nothing: a server that cannot write now (a replica after a failover) fails here, for the whole
  -- batch. Below, the script would return an error for each item, and the connection to that server would be kept.
  redis.call('EXPIRE', RECEIPT, receipt_life)
end

-- Writes the counters and the receipt. Returns the answer of the script. From here on an error must not end the script,
-- because the items are settled. So all calls are pcall: a counter that cannot be written loses its count.
local function finish(settled)
  for at, amount in ipairs({settled.processed, settled.failed}) do
    if amount > 0 then
      redis.pcall('INCRBY', KEYS[4 + at], amount)
      redis.pcall('INCRBY', KEYS[6 + at], amount)
      redis.pcall('EXPIRE', KEYS[6 + at], day_life)
    end
  end
  redis.pcall('SET', RECEIPT, number .. ':' .. cmsgpack.pack(settled.answer), 'EX', receipt_life)
  return settled.answer
end

return {answer = answer, finish = finish}
