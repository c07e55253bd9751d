-- Takes entries out of a line and moves their jobs, each only if it is still there: another process may have moved it.
-- A caller that has read them near the end of the line, where the oldest are, says how near. Entries come at the other
-- end, so they are no farther from the end now. To look for them in the whole line takes long in a long line.
--
-- KEYS: line, set with the names of the lines, queues, dead, a key that never exists, then queues, then keys of effects
-- ARGV: name of the line, how many of its oldest entries to look at (0: at all, from the newest one), dead limit, dead
--       age, how many queues, then for each entry: its step ('front' or 'back' of its queue, 'dead', 'delete'), number of
--       its queue (0: none), queue name, entry, payload in its new place, how many arguments its effects have, and these,
--       see effects.lua
-- Answer: for each entry 1: moved or deleted, 0: no longer there, or the text of the error for which it stays
local LINE, LINES, QUEUES, DEAD, NOTHING, OF_QUEUES, SIZE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], 5, 6
-- For fragments: FIXED, TRIAL, OUTBOXES, arguments
local FIXED, TRIAL, OUTBOXES, arguments = OF_QUEUES + ARGV[5], NOTHING, nil, ARGV
local now, effects, applied, AT_ONCE = ...

-- Where the access rules do not allow the commands that take entries out or put them back, the script fails here,
-- before it writes anything: a job must not be in two places.
redis.call('LREM', NOTHING, '1', '')
redis.call('LTRIM', NOTHING, '0', '0')
redis.call('RPUSH', NOTHING, '')
redis.call('LREM', NOTHING, '0', '')

local function put(step, key, payload)
  if step == 'front' then return redis.pcall('RPUSH', key, payload) end
  if step == 'back' then return redis.pcall('LPUSH', key, payload) end
  if step == 'dead' then return redis.pcall('ZADD', key, now, payload) end
end

-- The effects of a job were refused after all: it goes back into the line. Where it cannot be taken out of its new place,
-- it stays there: a job must not be in two places.
local function take_back(step, key, entry, payload)
  local reply = 1
  if step == 'dead' then
    reply = redis.pcall('ZREM', key, payload)
  elseif step ~= 'delete' then
    reply = redis.pcall('LREM', key, step == 'front' and '-1' or '1', payload)
  end
  if type(reply) == 'number' then redis.call('RPUSH', LINE, entry) end
end

local oldest, there, taken = {}, {}, {}
if ARGV[2] ~= '0' then oldest = redis.call('LRANGE', LINE, -ARGV[2], -1) end
for _, entry in ipairs(oldest) do there[entry] = (there[entry] or 0) + 1 end

local function take(entry)
  if ARGV[2] == '0' then return redis.call('LREM', LINE, '1', entry) == 1 end
  if (there[entry] or 0) <= (taken[entry] or 0) then return false end
  taken[entry] = (taken[entry] or 0) + 1
  return true
end

local function put_back(entry)
  if ARGV[2] == '0' then redis.call('RPUSH', LINE, entry) else taken[entry] = taken[entry] - 1 end
end

local answer, buried, follow = {}, false, {}
local i = 6
while i <= #ARGV do
  local step, number, name = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  local entry, payload = ARGV[i + 3], ARGV[i + 4]
  local key = number == 0 and DEAD or KEYS[OF_QUEUES + number]
  local first, last = i + SIZE, i + SIZE - 1 + ARGV[i + 5]
  local result = effects.refusal(first, last) or 0
  if result == 0 and take(entry) then
    local reply = put(step, key, payload)
    if type(reply) == 'table' and reply.err then
      result = reply.err .. ' (key ' .. key .. ')'
      put_back(entry)
    else
      result, buried = 1, buried or step == 'dead'
      if number > 0 then redis.pcall('SADD', QUEUES, name) end
      if first <= last then follow[#follow + 1] = {at = #answer + 1, key = key, first = first, last = last} end
    end
  end
  answer[#answer + 1] = result
  i = last + 1
end

local stay = {}
for _, entry in ipairs(oldest) do
  if (taken[entry] or 0) > 0 then
    taken[entry] = taken[entry] - 1
  else
    stay[#stay + 1] = entry
  end
end
if #stay < #oldest then
  redis.call('LTRIM', LINE, '0', -#oldest - 1)
  for from = 1, #stay, AT_ONCE do
    redis.call('RPUSH', LINE, unpack(stay, from, math.min(#stay, from + AT_ONCE - 1)))
  end
end
-- After the line was written: an effect may take an entry out of it.
for _, move in ipairs(follow) do
  local failed = applied(move.first, move.last)
  if failed then
    i = move.first - SIZE
    take_back(ARGV[i], move.key, ARGV[i + 3], ARGV[i + 4])
    answer[move.at] = failed
  end
end
if redis.call('LLEN', LINE) == 0 then redis.pcall('SREM', LINES, ARGV[1]) end
effects.finish()
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - ARGV[4])
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -ARGV[3] - 1)
end
return answer
