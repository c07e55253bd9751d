-- A job that has a lock begins.
-- KEYS: lock, gone    ARGV: jid, queue, life of the lock, the jid of a holder that does not count, '1' where the job may not
-- hold the lock yet, '1' where the lock may have newer fields for it, '1' where the lock ends as the job begins, '1' where
-- the job only looks for newer fields, the identity of the process that runs the job ('': the lock keeps its time)
-- Answer: {'run', fields or ''}, {'early', due}, or {'held', jid of the holder, its queue, at, due}
-- include note.lua
-- include lock.lua
local LOCK, GONE = KEYS[1], KEYS[2]
local jid, queue, life, owner = ARGV[1], ARGV[2], ARGV[3], ARGV[9]
local take, read, free, looks = ARGV[5] == '1', ARGV[6] == '1', ARGV[7] == '1', ARGV[8] == '1'
local other, _, refused = other_holder(LOCK, jid, ARGV[4])
local told = redis.pcall('HGET', LOCK, 'v')
if type(told) == 'table' then refused = told.err end
-- Else the job would run without its newest fields. A key of another type is no lock.
if refused and not string.find(refused, '^WRONGTYPE') then return {err = refused} end
if other then return take and {'held', unpack(other)} or {'run', ''} end
if not holds(LOCK, jid) then
  if free or not take then return {'run', ''} end
  local failed = take_lock(LOCK, jid, life, queue, '', '', true)
  if failed then return {err = failed} end
  if owner ~= '' then own_lock(LOCK, GONE, owner, life) end
  return {'run', ''}
end
if free then
  redis.call('DEL', LOCK)
  return {'run', ''}
end
local token, fields, due = unpack(redis.call('HMGET', LOCK, 'token', 'fields', 'due'))
if not read then
  if owner ~= '' then own_lock(LOCK, GONE, owner, life) end
  return {'run', ''}
end
if token and fields and due and due ~= '' and tonumber(due) > tonumber(now) then return {'early', due} end
if looks then return {'run', fields or ''} end
-- From here on no push replaces the fields, so a run after a crash reads the same ones. They live on until the job ends.
redis.call('HDEL', LOCK, 'token')
if not fields then redis.call('EXPIRE', LOCK, life) end
if owner ~= '' then own_lock(LOCK, GONE, owner, life) end
return {'run', fields or ''}
