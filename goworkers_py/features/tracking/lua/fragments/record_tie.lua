-- The push of a tracked job makes its record. The values: the life of the record, and the version of the record that it
-- replaces: a push whose job has another record is a duplicate; and the class.
local key_at, arguments, new_record, make_note, make_same_record, TIE_SIZE = ...

local function decide(job, at)
  local key = key_at(at + 1)
  local known = redis.pcall('HLEN', key)
  if type(known) == 'table' then return nil, known.err end
  if known == 0 then return end
  job.is_recorded = true
  if not make_same_record()(key, arguments[at + TIE_SIZE + 1]) then return 0 end
end

local function after(job, at)
  local key, life, class = key_at(at + 1), arguments[at + TIE_SIZE], arguments[at + TIE_SIZE + 2]
  local state, field, name = 'waiting', 'queue', job.name
  if job.step == 'schedule' then state, field = 'scheduled', 'due' end
  if not job.is_recorded and not job.group then return new_record(key, life, class, state, field, name, job.reason) end
  if job.is_recorded then redis.pcall('DEL', key) end -- where DEL is not allowed, `note` goes on with the record
  local fields = {'class', class, field, name}
  if job.group then state, fields[5], fields[6] = 'grouped', 'group', job.group end
  make_note().write(key, life, state, job.reason, fields)
end

return {decide = decide, after = after}
