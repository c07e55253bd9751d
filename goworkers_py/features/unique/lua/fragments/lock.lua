-- The lock of a unique job is a hash:
--   v, jid, queue, at         the version, the job that holds it, its queue, and when it got the lock
--   due                       when the job is due, if it waits for a time
--   token                     the payload of a job that reads `fields` as it begins; it goes as the job begins
--   owner                     the identity of the process that runs the job. It counts while the lock has no time to
--                             live: releases that do not know it give the lock a time and leave the field
--   fields                    the fields with which the job is to run instead of its own, as a JSON object
-- A lock of another version is left alone.
local LOCK_V = ...

local function holds(key, jid)
  return redis.pcall('HGET', key, 'v') == LOCK_V and redis.pcall('HGET', key, 'jid') == jid
end

local function free(key, jid)
  if holds(key, jid) then redis.pcall('DEL', key) end
end

-- The holder as {jid, queue, at, due}; nil when the lock is free, or its holder is `jid` or `instead_of`. A lock of
-- another version is held by a job that nobody knows. The second value says whether there is a lock, the third one is the
-- error if it cannot be read.
local function other_holder(key, jid, instead_of)
  local values = redis.pcall('HMGET', key, 'v', 'jid', 'queue', 'at', 'due')
  if values.err or not values[1] then return nil, false, values.err end
  if values[1] ~= LOCK_V then return {'', '', '0', ''} end
  if values[2] == jid or values[2] == instead_of then return nil, true end
  return {values[2], values[3] or '', values[4] or '0', values[5] or ''}
end

return {holds = holds, free = free, other_holder = other_holder}
