-- Moves entries of a set into their queues or the dead set, gives them another time, or deletes them. Each entry is
-- written to its new place, then removed from the set, and only if it is still in the set: another process may have
-- moved it.
-- KEYS: set, queues, dead, a key that never exists, then queues, then the records of jobs that may be tracked, then
--       keys of effects
-- ARGV: dead limit, dead age, life of a record, of one of a dead job, of one of a deleted job, the state of the jobs of
--       the set, how many queues, how many records, the number of the index of cancelled jobs among the keys of effects
--       (0: none), then for each entry: number of its queue (0: to the dead set, -1: it is deleted, -2: it stays, with
--       another time), queue name (-1: the reason, -2: life of its record), number of its record (0: none), entry,
--       payload in its new place (-2: the time), how many arguments its effects have, and these, see effects.lua
-- Answer: for each entry 1: moved, 0: no longer in the set, or the text of the error for which it stays in the set
local SET, QUEUES, DEAD, OF_QUEUES, SIZE = KEYS[1], KEYS[2], KEYS[3], 4, 6
local OF_RECORDS, arguments = OF_QUEUES + ARGV[7], ARGV
local FIXED, TRIAL, OUTBOXES = OF_RECORDS + ARGV[8], nil, nil
local function refusal()
  return false
end
local now, effects, ended, note = ...
local life, dead_life, deleted_life, state = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local INDEX = ARGV[9] ~= '0' and KEYS[FIXED + ARGV[9]]

-- Where the access rules do not allow ZREM, the script fails here, before it writes anything: an entry must not be in
-- two places. And a server that is out of memory lets a script go on that has called a write command before.
redis.call('ZREM', KEYS[4], '')

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

local function note_move(number, record, name, payload)
  if not note.is_tracked(record) then return end
  if number == -1 then -- a dead job keeps its record
    if note.is_live(record) then
      note.write(record, deleted_life, 'cancelled', name, {})
      ended.list(INDEX, record, 'cancelled', deleted_life)
    end
  elseif number == -2 then
    note.write(record, name, state, 'rescheduled', {'due', payload})
  elseif number == 0 then
    note.write(record, dead_life, 'dead', 'killed', {})
  else
    note.write(record, life, 'waiting', 'retried', {'queue', name})
  end
end

local answer, buried = {}, false
local i = 10
while i <= #ARGV do
  local number, name, record, entry = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2]), ARGV[i + 3]
  local result = 0
  if redis.call('ZMSCORE', SET, entry)[1] then
    local goal = number == -2 and SET or number > 0 and KEYS[OF_QUEUES + number] or DEAD
    local first, last = i + SIZE, i + SIZE - 1 + ARGV[i + 5]
    local failed = effects.refusal(first, last) or put(number, goal, name, entry, ARGV[i + 4])
    if failed then
      result = failed
    else
      if number ~= -2 then redis.call('ZREM', SET, entry) end
      result, buried = 1, buried or number == 0
      if record > 0 then note_move(number, KEYS[OF_RECORDS + record], name, ARGV[i + 4]) end
      effects.apply(first, last)
    end
  end
  answer[#answer + 1] = result
  i = i + SIZE + ARGV[i + 5]
end
effects.finish()
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - ARGV[2])
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -ARGV[1] - 1)
end
return answer
