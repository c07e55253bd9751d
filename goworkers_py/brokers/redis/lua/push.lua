-- Included by other scripts after note.lua and lock.lua. They have `arguments`, FIXED and QUEUES.
-- A push has ties to keys, and each tie may forbid it. Its arguments: 'back' or 'schedule', number of the goal, the
-- queue or the score, the class, the payload, how many arguments its ties have, and these: each tie begins with a
-- word, the number of its key and how many values follow:
--   'id'      the life of an id: a push whose id is known is a duplicate
--   'record'  the life of the record, and the version of the record that it replaces: a push whose job has another
--             record is a duplicate
--   'lock'    jid, life of the lock, what to do when another job holds it, the jid of a holder that does not count,
--             the number of the schedule, seconds until a job without its lock is tried again, the fields of `replace`,
--             the job's queue
-- Answer: 1: pushed, 0: a duplicate, or a list: how it met the lock, then its holder as {jid, queue, at, due}
local PUSH_SIZE, TIE_SIZE = 6, 3

local function key_at(at)
  return KEYS[FIXED + arguments[at]]
end

-- Calls `act(word, key, at)` for each tie of the push, `at` its first value. Returns the first answer that is not nil.
local function each_tie(first, act)
  local at, last = first + PUSH_SIZE, first + PUSH_SIZE - 1 + arguments[first + 5]
  while at <= last do
    local answer = act(arguments[at], key_at(at + 1), at + TIE_SIZE)
    if answer ~= nil then return answer end
    at = at + TIE_SIZE + arguments[at + 2]
  end
end

-- The holder of the lock gets the newest fields, if it has not begun. Where it waits for a later time than the newest
-- one, it gets that. (Where it waits for an earlier one, it waits again as it begins.) Returns false for a holder that
-- does not read them, and the error, if any.
local function replace(key, at, due)
  local token = redis.pcall('HGET', key, 'token')
  if type(token) ~= 'string' then return false end
  local reply = redis.pcall('HSET', key, 'fields', arguments[at + 6], 'due', due)
  if type(reply) == 'table' then return false, reply.err end
  prolong_lock(key, math.max(arguments[at + 1], LOCK_LIVES_S))
  redis.pcall('ZADD', key_at(at + 4), 'XX', 'LT', due == '' and now or due, token)
  return true
end

-- Returns how the push meets the lock of another job, and the error, if any; nil when the lock is free.
local function meet_lock(key, at, due)
  local other = other_holder(key, '', arguments[at + 3])
  if not other then return end
  local how, replaced, failed = arguments[at + 2] == 'reschedule' and 'rescheduled' or 'held'
  if arguments[at + 2] == 'replace' then replaced, failed = replace(key, at, due) end
  return {replaced and 'replaced' or how, unpack(other)}, failed
end

-- Returns the error that the push would give, if any. So a push that cannot be done fails before anything is written.
local function check_push(first)
  local goal = key_at(first + 1)
  local reply = arguments[first] == 'schedule' and redis.pcall('ZCARD', goal) or redis.pcall('LLEN', goal)
  if type(reply) == 'table' then return reply.err end
  return each_tie(first, function(word, key)
    reply = redis.pcall(word == 'lock' and 'HLEN' or 'EXISTS', key)
    if type(reply) == 'table' then return reply.err end
  end)
end

-- `reason` is for the timeline of a tracked job. Returns the answer, or the error as a second value.
local function push(first, reason)
  local step, goal, name = arguments[first], key_at(first + 1), arguments[first + 2]
  local class, payload, due = arguments[first + 3], arguments[first + 4], ''
  if step == 'schedule' then due = name end

  local answer = each_tie(first, function(word, key, at)
    local known = word ~= 'lock' and redis.pcall('EXISTS', key) == 1
    if known and (word == 'id' or not is_version(key, arguments[at + 1])) then return 0 end
  end)
  if answer then return answer end
  local waits, failed -- waits: the job is pushed without its lock, which another job holds
  answer = each_tie(first, function(word, key, at)
    if word ~= 'lock' then return end
    local met
    met, failed = meet_lock(key, at, due)
    if failed or not met or met[1] ~= 'rescheduled' then return met end
    waits, step, goal = met, 'schedule', key_at(at + 4)
    name = string.format('%.6f', math.max(now + arguments[at + 5], tonumber(due) or 0))
  end)
  if answer then return answer, failed end

  -- First, so that a job is not pushed twice, or without its lock, where this is refused.
  failed = each_tie(first, function(word, key, at)
    if word == 'id' then
      local reply = redis.pcall('SET', key, '', 'EX', arguments[at])
      if reply.err then return reply.err end
    elseif word == 'lock' and not waits then
      return take_lock(key, arguments[at], arguments[at + 1], arguments[at + 7], due,
        arguments[at + 2] == 'replace' and payload or '')
    end
  end)
  local reply
  if not failed and step == 'schedule' then
    reply = redis.pcall('ZADD', goal, name, payload)
  elseif not failed then
    redis.pcall('SADD', QUEUES, name)
    reply = redis.pcall('LPUSH', goal, payload)
  end
  failed = failed or (type(reply) == 'table' and reply.err)
  if failed then
    each_tie(first, function(word, key, at)
      -- The push did not happen, so its id must not stay. This deletes it at once, also where DEL is not allowed.
      if word == 'id' then redis.pcall('EXPIRE', key, '0') end
      if word == 'lock' and not waits then free_lock(key, arguments[at]) end
    end)
    return 0, failed
  end

  each_tie(first, function(word, key, at)
    if word ~= 'record' then return end
    redis.pcall('DEL', key)
    local scheduled = step == 'schedule'
    note(key, arguments[at], scheduled and 'scheduled' or 'waiting', reason,
      {'class', class, scheduled and 'due' or 'queue', name})
  end)
  return waits or 1
end
