-- The locks of jobs that run get their owner, or those of jobs that run no more get their time back, where the step that
-- has ended the run did not do it.
-- KEYS: receipt, gone, then locks
-- ARGV: number and its life, see late.lua, the owner, '1' for jobs that run, then for each lock the jid of its job, its life
-- Answer: for each lock the jid of another job that holds it, or '', or {'late', number}, see late.lua
local lock, lock_life, late = ...
local GONE, owner, others = KEYS[2], ARGV[3], {}
local is_late = late.answer(KEYS[1], ARGV[1], ARGV[2])
if is_late then return is_late end
for number = 3, #KEYS do
  local key, at = KEYS[number], 2 * number - 1
  local left = redis.pcall('TTL', key)
  local jid, life = ARGV[at], ARGV[at + 1]
  others[number - 2] = ''
  if not lock.holds(key, jid) then
    local holder = redis.pcall('HGET', key, 'jid')
    if type(holder) == 'string' then others[number - 2] = holder end
  elseif ARGV[4] == '1' then
    -- More time than its own has a lock that was kept for a later run. The run of which the owner knows may have ended
    -- just now, and with an owner the lock would not outlast the wait.
    if type(left) ~= 'number' or left <= tonumber(life) then lock_life.own(key, GONE, owner, life) end
  elseif redis.pcall('HGET', key, 'owner') == owner and left == -1 then
    lock_life.prolong(key, life)
    redis.pcall('HDEL', key, 'owner')
  end
end
return others
