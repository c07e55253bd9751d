-- The ends of jobs of batches.
local arguments, batch, row_numbers = ...

-- The values: how a job has died, its jid, and the place of its batch.
local function apply(_, way, first)
  batch.end_in(batch.place(first + 2), 1, way, 1, arguments[first], arguments[first + 1])
end

local function refusal(key)
  return batch.count_refusal(key, 'total', batch.V)
end

-- The items of rows that succeed in a batch are counted when they were removed. Where their end cannot be counted, they
-- stay. The values: their numbers, and the place of the batch. Returns where the next row or item begins.
local ends = {}
local function rows(i, settled)
  local numbers, place, last = row_numbers(arguments[i]), batch.place(i + 1)
  local failed = batch.count_refusal(place[1].key, 'total', batch.V)
  for _, number in ipairs(failed and numbers or {}) do settled.refused[number] = failed end
  if not failed then ends[#ends + 1] = {place = place, numbers = numbers, stays = settled.stays} end
  return last + 1
end

local function finish()
  for _, of_batch in ipairs(ends) do
    local amount = 0
    for _, number in ipairs(of_batch.numbers) do
      if not of_batch.stays[number] then amount = amount + 1 end
    end
    batch.end_in(of_batch.place, 1, 'succeeded', amount, '', '')
  end
end

return {['end'] = {apply = apply, refusal = refusal}, ends = rows, finish = finish}
