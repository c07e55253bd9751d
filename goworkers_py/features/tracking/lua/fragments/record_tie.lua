-- The push of a tracked job makes its record. The values: the life of the record, and the version of the record that it
-- replaces: a push whose job has another record is a duplicate; and the class.
local key_at, arguments, now, make_note, NOTE_V, NOTE_PIECE = ...
local TIE_SIZE = 3

local function decide(job, at)
  local key = key_at(at + 1)
  local known = redis.pcall('HLEN', key)
  if type(known) == 'table' then return nil, known.err end
  if known == 0 then return end
  job.is_recorded = true
  -- Whether the record is the one that the caller has read. Another may have been made since.
  local n, since = redis.pcall('HGET', key, 'n'), redis.pcall('HGET', key, 'at')
  if type(n) ~= 'string' or type(since) ~= 'string' or n .. ' ' .. since ~= arguments[at + TIE_SIZE + 1] then return 0 end
end

-- Nearly all records are new, and their values are short: so the pieces of `note` are not needed.
local function after(job, at)
  local key, life, class = key_at(at + 1), arguments[at + TIE_SIZE], arguments[at + TIE_SIZE + 2]
  local state, field, name = 'waiting', 'queue', job.name
  if job.step == 'schedule' then state, field = 'scheduled', 'due' end
  if job.is_recorded then redis.pcall('DEL', key) end
  if job.is_recorded or job.group or #class >= NOTE_PIECE or #name >= NOTE_PIECE then
    local fields = {'class', class, field, name}
    if job.group then state, fields[5], fields[6] = 'grouped', 'group', job.group end
    return make_note().write(key, life, state, job.reason, fields)
  end
  redis.pcall('HSET', key, 'v', NOTE_V, 'state', state, 'at', now, 'n', '1', 'due', '',
    't1', state .. ' ' .. now .. ' ' .. job.reason, 'class', class, field, name)
  redis.pcall('EXPIRE', key, life)
end

return {decide = decide, after = after}
