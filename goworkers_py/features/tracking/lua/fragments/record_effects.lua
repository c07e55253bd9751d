-- The effects on the records of tracked jobs.
local key_at, arguments, note, ended, row_numbers, FIXED = ...

-- The values: the number of the index of jobs that have ended so (0: none), the state, the reason, then the fields.
local function apply(key, life, first, last)
  local state = arguments[first + 1]
  note.write(key, life, state, arguments[first + 2], arguments, first + 3, last)
  if arguments[first] ~= '0' then ended.list(key_at(first), key, state, life) end
end

local function only_known(key, life, first, last)
  if note.is_tracked(key) then apply(key, life, first, last) end
end

-- A job was moved without a run. The first value says of which jobs the record is written: 'tracked', 'live': of those that
-- have not ended, or 'dead': of these and of dead ones, which Sidekiq's page has put back into a queue and has told nobody.
-- The others are those of a note.
local function moved(key, life, first, last)
  local which = arguments[first]
  local writes = which == 'tracked' and note.is_tracked(key) or which ~= 'tracked' and note.is_live(key)
  if writes or (which == 'dead' and redis.pcall('HGET', key, 'state') == 'dead') then apply(key, life, first + 1, last) end
end

-- Writes the records of items of rows that were removed. Returns where the next row or item begins.
local function rows(i, settled)
  local state, life, reason, class = arguments[i], arguments[i + 1], arguments[i + 2], arguments[i + 3]
  local index = arguments[i + 4] ~= '0' and KEYS[FIXED + arguments[i + 4]]
  local items, record, names, fields = arguments[i + 5], FIXED + arguments[i + 6], tonumber(arguments[i + 7]), {}
  i = i + 7
  for j = 1, names do fields[2 * j - 1] = arguments[i + j] end
  if class ~= '' then fields[2 * names + 1], fields[2 * names + 2] = 'class', class end
  i = i + names
  for _, number in ipairs(row_numbers(items)) do
    for j = 1, names do fields[2 * j] = arguments[i + j] end
    if not settled.stays[number] then
      note.write(KEYS[record], life, state, reason, fields, 1, #fields)
      if index then ended.list(index, KEYS[record], state, life) end
    end
    record, i = record + 1, i + names
  end
  return i + 1
end

return {note = {apply = apply}, renote = {apply = only_known}, moved = {apply = moved}, notes = rows, finish = ended.write}
