-- Included by other scripts. `note` writes the state of a tracked job into its record, see wire/job_record.py, in the
-- step in which the job moves. The job is moved in any case: an error here, as of a missing access rule, is ignored.
-- include now.lua
local NOTE_V, NOTE_MOST = '1', 100
local NOTE_ENDED = {dead = true, completed = true, cancelled = true, expired = true}

local may_write = false

-- `fields` from `first` to `last` are names and values. A dead job is in its set under the time of this step.
local function note(key, life, state, reason, fields, first, last)
  local v, n = redis.pcall('HGET', key, 'v'), '1'
  if v and v ~= NOTE_V then return end -- of another release, or no record
  -- The number as text: redis.call writes a number of Lua with 17 digits, which takes longer than all the rest here.
  if v then n = string.format('%d', (tonumber(redis.pcall('HGET', key, 'n')) or 0) + 1) end
  -- A server that is out of memory refuses HSET to a script that has written nothing. EXPIRE is allowed, and is a write.
  if not may_write then redis.pcall('EXPIRE', key, life) end
  may_write = true
  -- A new record has no owner that is to be cleared, and an old one has its version.
  redis.pcall('HSET', key, v and 'owner' or 'v', v and '' or NOTE_V, 'state', state, 'at', now, 'n', n,
    'due', state == 'dead' and now or '', 't' .. n, state .. ' ' .. now .. ' ' .. reason,
    unpack(fields, first or 1, last or #fields))
  if tonumber(n) > NOTE_MOST then redis.pcall('HDEL', key, 't' .. n - NOTE_MOST) end
  redis.pcall('EXPIRE', key, life)
  if NOTE_ENDED[state] then redis.pcall('PUBLISH', key, state) end
end

-- Whether the record is of a job that goes on.
local function is_live(key)
  return redis.pcall('HGET', key, 'v') == NOTE_V and not NOTE_ENDED[redis.pcall('HGET', key, 'state')]
end

-- Whether the record is the one that the caller has read. Another may have been made since.
local function is_version(key, version)
  local n, at = redis.pcall('HGET', key, 'n'), redis.pcall('HGET', key, 'at')
  return type(n) == 'string' and type(at) == 'string' and n .. ' ' .. at == version
end

local function is_tracked(key)
  return redis.pcall('HGET', key, 'v') == NOTE_V
end
