-- The locks of jobs that run get their owner, or those of jobs that run no more get their time back, where the step that
-- has ended the run did not do it.
-- KEYS: gone, then locks    ARGV: '1' for jobs that run, then for each lock the jid of its job, its life, the owner
-- Answer: for each lock the jid of another job that holds it, or ''
-- include note.lua
-- include lock.lua
local GONE, others = KEYS[1], {}
for number = 2, #KEYS do
  local key, at = KEYS[number], 3 * number - 4
  local jid, life, owner = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  others[number - 1] = ''
  if not holds(key, jid) then
    local holder = redis.pcall('HGET', key, 'jid')
    if type(holder) == 'string' then others[number - 1] = holder end
  elseif ARGV[1] == '1' then
    own_lock(key, GONE, owner, life)
  elseif redis.pcall('HGET', key, 'owner') == owner and redis.pcall('TTL', key) == -1 then
    prolong_lock(key, life)
    redis.pcall('HDEL', key, 'owner')
  end
end
return others
