-- A job that has a lock begins.
-- KEYS: receipt, lock, gone, in-progress list
-- ARGV: number and its life, see late.lua, jid, queue, life of the lock, the jid of a holder that does not count, '1' where the job may not
-- hold the lock yet, '1' where the lock may have newer fields for it, '1' where the lock ends as the job begins, '1' where
-- the job only looks for newer fields, the identity of the process that runs the job ('': the lock keeps its time), its raw
-- payload
-- Answer: {'run', fields or ''}, {'early', due}, {'held', jid of the holder, its queue, at, due}, or {'late', number}, see
-- late.lua
local now, lock, take_lock, lock_life, late = ...
local LOCK, GONE = KEYS[2], KEYS[3]
local jid, queue, life, owner = ARGV[3], ARGV[4], ARGV[5], ARGV[11]
local take, read, free, looks = ARGV[7] == '1', ARGV[8] == '1', ARGV[9] == '1', ARGV[10] == '1'
if owner ~= '' then
  local is_late = late.answer(KEYS[1], ARGV[1], ARGV[2])
  if is_late then return is_late end
  -- The lock of a job that runs here no more must not get an owner: nothing would end it.
  if ARGV[12] ~= '' and not late.is_in_progress(KEYS[4], ARGV[12]) then owner = '' end
end
local other, _, refused = lock.other_holder(LOCK, jid, ARGV[6])
local version = redis.pcall('HGET', LOCK, 'v')
if type(version) == 'table' then refused = version.err end
-- Else the job would run without its newest fields. A key of another type is no lock.
if refused and not string.find(refused, '^WRONGTYPE') then return {err = refused} end
if other then return take and {'held', unpack(other)} or {'run', ''} end
if not lock.holds(LOCK, jid) then
  if free or not take then return {'run', ''} end
  local failed = take_lock(LOCK, jid, life, queue, now, '', '', true)
  if failed then return {err = failed} end
  if owner ~= '' then lock_life.own(LOCK, GONE, owner, life) end
  return {'run', ''}
end
if free then
  redis.call('DEL', LOCK)
  return {'run', ''}
end
local token, fields, due = unpack(redis.call('HMGET', LOCK, 'token', 'fields', 'due'))
if not read then
  if owner ~= '' then lock_life.own(LOCK, GONE, owner, life) end
  return {'run', ''}
end
if token and fields and due and due ~= '' and tonumber(due) > tonumber(now) then return {'early', due} end
if looks then return {'run', fields or ''} end
-- From here on no push replaces the fields, so a run after a crash reads the same ones. They live on until the job ends.
redis.call('HDEL', LOCK, 'token')
if not fields then redis.call('EXPIRE', LOCK, life) end
if owner ~= '' then lock_life.own(LOCK, GONE, owner, life) end
return {'run', fields or ''}
