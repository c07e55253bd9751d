-- Writes into records that their jobs run, and how far they have got. It comes late, so the job may have ended by then:
-- a job that begins is looked for in its in-progress list, and progress is written only while the record says that the
-- job runs under the same identity.
-- KEYS: records, in-progress lists and keys of effects, in any order
-- ARGV: life of a record, then for each job: number of its record, of its in-progress list (0: it has begun before), its
--       payload, identity, queue, class, progress ('': none), how many arguments the effects of other features have that
--       happen if it was written, and these, see effects.lua
-- Answer: for each job 1 when it was written, else 0
-- For fragments: FIXED, arguments
local FIXED, arguments = 0, ARGV
local note, effects = ...
local life, written = ARGV[1], {}

local function is_running(key, owner)
  if redis.pcall('HGET', key, 'state') ~= 'running' then return false end
  local pieces = note.in_pieces({'owner', owner}, 1, 2)
  for i = 1, #pieces, 2 do
    if redis.pcall('HGET', key, pieces[i]) ~= pieces[i + 1] then return false end
  end
  return true
end

local function set_progress(key, progress)
  if progress ~= '' then redis.pcall('HSET', key, unpack(note.in_pieces({'progress', progress}, 1, 2))) end
end

local function holds(list, raw)
  local place = redis.pcall('LPOS', list, raw)
  if type(place) ~= 'table' then return place and true end
  for _, entry in ipairs(redis.call('LRANGE', list, 0, -1)) do -- the access rules do not allow LPOS
    if entry == raw then return true end
  end
end

local i = 2
while i <= #ARGV do
  local record, list, raw, owner = KEYS[tonumber(ARGV[i])], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3]
  local queue, class, progress, last = ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], i + 7 + ARGV[i + 7]
  if list > 0 and holds(KEYS[list], raw) then
    note.write(record, life, 'running', 'in ' .. owner, {'owner', owner, 'queue', queue, 'class', class})
  end
  local runs = is_running(record, owner)
  if runs then set_progress(record, progress) end
  if runs then effects.apply(i + 8, last) end
  written[#written + 1] = runs and 1 or 0
  i = last + 1
end
return written
