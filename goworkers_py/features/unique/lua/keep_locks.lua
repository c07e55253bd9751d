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
  local left, had = redis.pcall('TTL', key), redis.pcall('HGET', key, 'owner')
  local jid, life = ARGV[at], ARGV[at + 1]
  others[number - 2] = ''
  if not lock.holds(key, jid) then
    local holder = redis.pcall('HGET', key, 'jid')
    if type(holder) == 'string' then others[number - 2] = holder end
  elseif ARGV[4] == '1' then
    -- The run of which the owner knows may have ended just now. Then another process may run the job, or the lock was
    -- kept for a later run: it has more time than its own, and with an owner would not outlast the wait.
    local others_run = type(had) == 'string' and had ~= owner and redis.pcall('HEXISTS', GONE, had) == 0
    local waits = type(left) == 'number' and left > tonumber(life)
    if not others_run and not waits then lock_life.own(key, GONE, owner, life) end
  elseif had == owner and left == -1 then
    lock_life.prolong(key, life)
    redis.pcall('HDEL', key, 'owner')
  end
end
return others
