-- Writes into records that their jobs run, and how far they have got. It comes late, so the job may have ended by then:
-- a job that begins is looked for in its in-progress list, and progress is written only while the record says that the
-- job runs under the same identity.
-- KEYS: records and in-progress lists, in any order
-- ARGV: life of a record, then for each job: number of its record, of its in-progress list (0: it has begun before), its
--       payload, identity, queue, class, progress ('': none)
-- Answer: for each job 1 when it was written, else 0
-- include note.lua
local life, SIZE, written = ARGV[1], 7, {}

local function is_running(key, owner)
  return redis.pcall('HGET', key, 'state') == 'running' and redis.pcall('HGET', key, 'owner') == owner
end

local function set_progress(key, progress)
  if progress ~= '' then redis.pcall('HSET', key, 'progress', progress) end
end

local function holds(list, raw)
  local place = redis.pcall('LPOS', list, raw)
  if type(place) ~= 'table' then return place and true end
  for _, entry in ipairs(redis.call('LRANGE', list, 0, -1)) do -- the access rules do not allow LPOS
    if entry == raw then return true end
  end
end

for i = 2, #ARGV, SIZE do
  local record, list, raw, owner = KEYS[tonumber(ARGV[i])], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3]
  local queue, class, progress = ARGV[i + 4], ARGV[i + 5], ARGV[i + 6]
  if list > 0 and holds(KEYS[list], raw) then
    note(record, life, 'running', 'in ' .. owner, {'owner', owner, 'queue', queue, 'class', class})
  end
  local runs = is_running(record, owner)
  if runs then set_progress(record, progress) end
  written[#written + 1] = runs and 1 or 0
end
return written
