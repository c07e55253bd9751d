-- Takes entries out of a line and moves their jobs, each only if it is still in the line: another process may have moved
-- it. The entries are looked for from the oldest one.
-- KEYS: line, lines, queues, dead, a key that never exists, then queues
-- ARGV: name of the line, dead limit, dead age, then for each entry: its step ('front' or 'back' of its queue, 'dead',
--       'delete'), number of its queue (0: none), queue name, entry, payload in its new place
-- Answer: for each entry 1: moved or deleted, 0: no longer in the line, or the text of the error for which it stays
local LINE, LINES, QUEUES, DEAD, NOTHING, FIXED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], 5
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
-- An entry is taken out before its job is written, and put back when that fails. Where the access rules do not allow
-- the commands for this, the script fails here, before it writes anything.
redis.call('LREM', NOTHING, '0', '')
redis.call('RPUSH', NOTHING, '')
redis.call('LREM', NOTHING, '0', '')

local function put(step, key, payload)
  if step == 'front' then return redis.pcall('RPUSH', key, payload) end
  if step == 'back' then return redis.pcall('LPUSH', key, payload) end
  if step == 'dead' then return redis.pcall('ZADD', key, now, payload) end
end

local answer, buried = {}, false
for i = 4, #ARGV, 5 do
  local step, number, name, entry, payload = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local key = number == 0 and DEAD or KEYS[FIXED + number]
  local result = redis.call('LREM', LINE, '-1', entry)
  if result == 1 then
    local reply = put(step, key, payload)
    if type(reply) == 'table' and reply.err then
      result = reply.err .. ' (key ' .. key .. ')'
      redis.call('RPUSH', LINE, entry)
    else
      buried = buried or step == 'dead'
      if number > 0 then redis.pcall('SADD', QUEUES, name) end
    end
  end
  answer[#answer + 1] = result
end
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - ARGV[3])
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -ARGV[2] - 1)
end
if redis.call('LLEN', LINE) == 0 then redis.pcall('SREM', LINES, ARGV[1]) end
return answer
