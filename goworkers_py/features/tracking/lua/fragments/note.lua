-- `write` writes the state of a tracked job into its record, see features/tracking/record.py, in the
-- step in which the job moves. The job is moved in any case: an error here, as of a missing access rule, is ignored.
local now, NOTE_V, NOTE_PIECE, NOTE_MOST, NOTE_WHOLE = ...
local NOTE_ENDED = {dead = true, completed = true, cancelled = true, expired = true}

-- Redis keeps a hash in a third of the memory while no value has more than 64 bytes. So a longer one is in pieces. One of
-- exactly 64 bytes goes on in the next field, as `result`, `result:1`, `result:2`; behind the first other one are at most
-- pieces of an older value. A value that is long anyway is in one piece.
-- Names and values as arguments of `unpack`. Nearly all values are short, and are taken as they are.
local function in_pieces(fields, first, last)
  local long = false
  for i = first + 1, last, 2 do long = long or #fields[i] >= NOTE_PIECE end
  if not long then return fields, first, last end
  local pieces = {}
  for i = first, last, 2 do
    local name, value = fields[i], fields[i + 1]
    local more = #value < NOTE_WHOLE and math.floor(#value / NOTE_PIECE) or 0
    pieces[#pieces + 1], pieces[#pieces + 2] = name, more > 0 and string.sub(value, 1, NOTE_PIECE) or value
    for piece = 1, more do
      pieces[#pieces + 1] = name .. ':' .. piece
      pieces[#pieces + 1] = string.sub(value, piece * NOTE_PIECE + 1, (piece + 1) * NOTE_PIECE)
    end
  end
  return pieces, 1, #pieces
end

local may_write = false

-- `fields` from `first` to `last` are names and values. A dead job is in its set under the time of this step.
local function write(key, life, state, reason, fields, first, last)
  local v, n = redis.pcall('HGET', key, 'v'), '1'
  if v and v ~= NOTE_V then return end -- of another release, or no record
  -- The number as text: redis.call writes a number of Lua with 17 digits, which takes longer than all the rest here.
  if v then n = string.format('%d', (tonumber(redis.pcall('HGET', key, 'n')) or 0) + 1) end
  -- A server that is out of memory refuses HSET to a script that has written nothing. EXPIRE is allowed, and is a write.
  if not may_write then redis.pcall('EXPIRE', key, life) end
  may_write = true
  local move = state .. ' ' .. now .. ' ' .. reason
  -- A new record has no owner that is to be cleared, and an old one has its version.
  redis.pcall('HSET', key, v and 'owner' or 'v', v and '' or NOTE_V, 'state', state, 'at', now, 'n', n,
    'due', state == 'dead' and now or '', 't' .. n, string.sub(move, 1, NOTE_PIECE),
    unpack(in_pieces(fields, first or 1, last or #fields)))
  if #move >= NOTE_PIECE then redis.pcall('HSET', key, unpack(in_pieces({'t' .. n, move}, 1, 2))) end
  if v and tonumber(n) > NOTE_MOST then
    local name, piece = 't' .. n - NOTE_MOST, 0
    local field = name
    while redis.pcall('HDEL', key, field) == 1 do
      piece = piece + 1
      field = name .. ':' .. piece
    end
  end
  redis.pcall('EXPIRE', key, life)
  if NOTE_ENDED[state] then redis.pcall('PUBLISH', key, state) end
end

-- Whether the record is of a job that goes on.
local function is_live(key)
  return redis.pcall('HGET', key, 'v') == NOTE_V and not NOTE_ENDED[redis.pcall('HGET', key, 'state')]
end

local function is_tracked(key)
  return redis.pcall('HGET', key, 'v') == NOTE_V
end

return {V = NOTE_V, write = write, is_live = is_live, is_tracked = is_tracked, in_pieces = in_pieces}
