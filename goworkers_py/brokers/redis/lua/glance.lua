-- Reads entries of a list or a sorted set up to a budget of bytes: of a large entry only its beginning and its end.
--
-- KEYS: the list or the set
-- ARGV: list, or of a sorted set rising or falling, the first place (of a list below 0: from its end to its
--       beginning), how many entries, the most bytes of a whole one, a text for whose sake an entry comes whole ('':
--       none), the most bytes of such an entry, how many bytes of a beginning, of an end, the most bytes of the answer,
--       and of all entries that are looked at
-- Answer: for each entry: it or its beginning, its score (of a list ''), its size, its end ('': it is whole)
local order, first, count, text = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[5]
local longest, longest_with_text = tonumber(ARGV[4]), tonumber(ARGV[6])
local head, tail, room, looks = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local width = order == 'list' and 1 or 2

local function part(from, size)
  if order == 'rising' then return redis.call('ZRANGE', KEYS[1], from, from + size - 1, 'WITHSCORES') end
  if order == 'falling' then return redis.call('ZREVRANGE', KEYS[1], from, from + size - 1, 'WITHSCORES') end
  if first >= 0 then return redis.call('LRANGE', KEYS[1], from, from + size - 1) end
  local turned = redis.call('LRANGE', KEYS[1], first - (from - first) - size + 1, first - (from - first))
  local straight = {}
  for i = #turned, 1, -1 do straight[#straight + 1] = turned[i] end
  return straight
end

-- A few at a time: the server holds a copy of all entries of one reply.
local answer, done, step = {}, 0, 1
while done < count and room > 0 and looks > 0 do
  local found = part(first + done, math.min(step, count - done))
  if #found == 0 then break end
  step = math.min(2 * step, 32)
  for i = 1, #found, width do
    if room <= 0 or looks <= 0 then break end
    local entry, last = found[i], ''
    local size = #entry
    if size > longest then
      step = 1
      if text == '' or size > longest_with_text or not string.find(entry, text, 1, true) then
        entry, last = string.sub(entry, 1, head), string.sub(entry, -tail)
      end
    end
    for _, value in ipairs({entry, width == 2 and found[i + 1] or '', size, last}) do answer[#answer + 1] = value end
    done, room, looks = done + 1, room - #entry - #last, looks - size
  end
end
return answer
