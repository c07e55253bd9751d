-- Moves entries of a set into their queues or the dead set, gives them another time, or deletes them. Each entry is
-- written to its new place, then removed from the set, and only if it is still in the set: another process may have
-- moved it.
-- KEYS: set, queues, dead, a key that never exists, then queues, then keys of effects
-- ARGV: dead limit, dead age, how many queues, then for each entry: number of its queue (0: to the dead set, -1: it is
--       deleted, -2: it stays, with another time), queue name, entry, payload in its new place (-2: the time), how many
--       arguments its effects have, and these, see effects.lua
-- Answer: for each entry 1: moved, 0: no longer in the set, or the text of the error for which it stays in the set
local SET, QUEUES, DEAD, NOTHING, OF_QUEUES, SIZE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], 4, 5
-- For fragments: FIXED, TRIAL, OUTBOXES, arguments
local FIXED, TRIAL, OUTBOXES, arguments = OF_QUEUES + ARGV[3], NOTHING, nil, ARGV
local now, effects, applied = ...

-- Where the access rules do not allow ZREM and LREM, the script fails here, before it writes anything: an entry must not
-- be in two places. And a server that is out of memory lets a script go on that has called a write command before.
redis.call('ZREM', NOTHING, '')
redis.call('LREM', NOTHING, '0', '')

local function put(number, key, name, entry, payload)
  if number == -1 then return end
  local reply
  if number == -2 then
    reply = redis.pcall('ZADD', key, payload, entry)
  elseif number == 0 then
    reply = redis.pcall('ZADD', key, now, payload)
  else
    reply = redis.pcall('LPUSH', key, payload)
  end
  if type(reply) == 'table' and reply.err then return reply.err .. ' (key ' .. key .. ')' end
  if number > 0 then redis.pcall('SADD', QUEUES, name) end
end

-- The effects of an entry were refused after all: it is as it was.
local function take_back(number, key, entry, payload, score)
  if number == -2 then redis.call('ZADD', key, score, entry) end
  if number == 0 then redis.call('ZREM', key, payload) end
  if number > 0 then redis.call('LREM', key, '1', payload) end
end

local answer, buried = {}, false
local i = 4
while i <= #ARGV do
  local number, name, entry, payload = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local result = 0
  local score = redis.call('ZMSCORE', SET, entry)[1]
  if score then
    local goal = number == -2 and SET or number > 0 and KEYS[OF_QUEUES + number] or DEAD
    local first, last = i + SIZE, i + SIZE - 1 + ARGV[i + 4]
    local failed = effects.refusal(first, last) or put(number, goal, name, entry, payload)
    if not failed then
      failed = applied(first, last)
      if failed then take_back(number, goal, entry, payload, score) end
    end
    if failed then
      result = failed
    else
      if number ~= -2 then redis.call('ZREM', SET, entry) end
      result, buried = 1, buried or number == 0
    end
  end
  answer[#answer + 1] = result
  i = i + SIZE + ARGV[i + 4]
end
effects.finish()
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - ARGV[2])
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -ARGV[1] - 1)
end
return answer
