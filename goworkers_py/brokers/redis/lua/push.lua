-- Included by other scripts after note.lua and lock.lua. They have `arguments`, FIXED and QUEUES.
-- A push has ties to keys, at most one of each kind, and each tie may forbid it. Its arguments: 'back' or 'schedule',
-- number of the goal, the queue or the score, the class, the payload, how many arguments its ties have, and these: each
-- tie begins with a word, the number of its key and how many values follow:
--   'id'      the life of an id: a push whose id is known is a duplicate
--   'record'  the life of the record, and the version of the record that it replaces: a push whose job has another
--             record is a duplicate
--   'lock'    jid, life of the lock, what to do when another job holds it, the jid of a holder that does not count,
--             the number of the schedule, seconds until a job without its lock is tried again, the fields of `replace`,
--             the job's queue
--   'batch'   its place, see batch.lua: a push into a batch that has ended does not happen
--   'group'   see group.lua: the job joins this group, and its goal is not used
--   'slot'    jid, the header of an entry in a line, then a slot, see limit.lua: a job waits in the line while the slot
--             is full, and takes a place with it else. Only of a push into a queue
-- Answer: 1: pushed, 0: a duplicate, -1: its batch takes no jobs, or a list: how it met the lock, then its holder as
-- {jid, queue, at, due}
local PUSH_SIZE, TIE_SIZE = 6, 3

local function key_at(at)
  return KEYS[FIXED + arguments[at]]
end

-- include limit.lua
-- include batch.lua
-- include chain.lua
-- include group.lua
-- include trial.lua

-- Where the ties of a push begin, by their words.
local function ties_of(first)
  local at, last, ties = first + PUSH_SIZE, first + PUSH_SIZE - 1 + arguments[first + 5], {}
  while at <= last do
    ties[arguments[at]] = at
    at = at + TIE_SIZE + arguments[at + 2]
  end
  return ties
end

-- The holder of the lock gets the newest fields, if it has not begun. Where it waits for a later time than the newest
-- one, it gets that. (Where it waits for an earlier one, it waits again as it begins.) Returns false for a holder that
-- does not read them, and the error, if any.
local function replace(key, at, due)
  local token = redis.pcall('HGET', key, 'token')
  if type(token) ~= 'string' then return false, token and token.err end
  local reply = redis.pcall('HSET', key, 'fields', arguments[at + 6], 'due', due)
  if type(reply) == 'table' then return false, reply.err end
  prolong_lock(key, math.max(arguments[at + 1], LOCK_LIVES_S))
  redis.pcall('ZADD', key_at(at + 4), 'XX', 'LT', due == '' and now or due, token)
  return true
end

-- Returns how the push meets the lock of another job, and the error, if any; nil when it may take the lock, and whether
-- that of `instead_of` is there.
local function meet_lock(key, at, due)
  local other, held, unread = other_holder(key, '', arguments[at + 3])
  if unread then return {}, unread end
  if not other then return nil, nil, held end
  local how, replaced, failed = arguments[at + 2] == 'reschedule' and 'rescheduled' or 'held'
  if arguments[at + 2] == 'replace' then replaced, failed = replace(key, at, due) end
  return {replaced and 'replaced' or how, unpack(other)}, failed
end

local function type_error(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  return type(reply) == 'table' and reply.err
end

-- For each tie, the error for which its keys cannot be written.
local TIE_CHECKS = {group = check_group}

-- Whether it is there is asked without a look at its type: a push would be taken for a duplicate.
function TIE_CHECKS.id(at)
  return type_error('GET', key_at(at + 1))
end

function TIE_CHECKS.record(at)
  return type_error('HLEN', key_at(at + 1))
end

function TIE_CHECKS.lock(at)
  return type_error('HLEN', key_at(at + 1)) or type_error('ZCARD', key_at(at + TIE_SIZE + 4))
end

function TIE_CHECKS.batch(at)
  local place = joined_place(at + TIE_SIZE)
  local failed = type_error('ZCARD', place.batches)
  for _, level in ipairs(place) do failed = failed or type_error('HLEN', level.key) end
  return failed
end

function TIE_CHECKS.slot(at)
  return slot_error((slot_at(at + TIE_SIZE + 2)))
end

-- Returns the error that the push would give, if any: each key that it writes is asked for its type. So a push that
-- cannot be done fails before anything is written.
local function check_push(first)
  local failed = type_error(arguments[first] == 'schedule' and 'ZCARD' or 'LLEN', key_at(first + 1))
  failed = failed or trial_refusal(arguments[first])
  for word, at in pairs(ties_of(first)) do
    failed = failed or trial_refusal(word) or (TIE_CHECKS[word] and TIE_CHECKS[word](at))
  end
  return failed
end

-- `reason` is for the timeline of a tracked job. A push that `insists` happens without its batch where that was closed
-- by force. Returns the answer, or the error as a second value.
local function push(first, reason, insists)
  local step, goal, name = arguments[first], key_at(first + 1), arguments[first + 2]
  local class, payload, due = arguments[first + 3], arguments[first + 4], ''
  local ties = ties_of(first)
  local id, record, lock, batch, group = ties.id, ties.record, ties.lock, ties.batch, ties.group
  local batch_key = batch and key_at(batch + 1)
  local id_key, record_key, lock_key = id and key_at(id + 1), record and key_at(record + 1), lock and key_at(lock + 1)
  if step == 'schedule' then due = name end

  if id and redis.pcall('EXISTS', id_key) == 1 then return 0 end
  local known = record and redis.pcall('HLEN', record_key) or 0
  if type(known) == 'table' then return 0, known.err end
  if known > 0 and not is_version(record_key, arguments[record + 4]) then return 0 end
  local joins, met, failed, held, reply
  if batch then joins, failed = may_join(batch_key, batch + TIE_SIZE) end
  if failed then return 0, failed end
  if batch and not joins then
    if not insists or is_stopped(joined_place(batch + TIE_SIZE), 1) then return -1 end
    if not takes_jobs(batch_key) then batch = nil end
  end
  if lock then met, failed, held = meet_lock(lock_key, lock + TIE_SIZE, due) end
  if met then
    if failed or met[1] ~= 'rescheduled' then return met, failed end
    local at = lock + TIE_SIZE
    name = string.format('%.6f', math.max(now + arguments[at + 5], tonumber(due) or 0))
    lock, group, step, goal = nil, nil, 'schedule', key_at(at + 4) -- the job is pushed without its lock
  end

  -- First, so that a job is not pushed twice, or without its lock, where this is refused.
  if id then
    reply = redis.pcall('SET', id_key, '', 'EX', arguments[id + TIE_SIZE])
    failed = reply.err
  end
  if lock and not failed then
    local at = lock + TIE_SIZE
    local token = arguments[at + 2] == 'replace' and payload or ''
    failed = take_lock(lock_key, arguments[at], arguments[at + 1], arguments[at + 7], due, token, held)
  end
  if batch and not failed then
    reply = redis.pcall('HINCRBY', batch_key, 'total', '1')
    failed = type(reply) == 'table' and reply.err
  end
  local counted = batch and not failed
  local slot = ties.slot and not group and step ~= 'schedule' and slot_at(ties.slot + TIE_SIZE + 2)
  local entered = true
  if not failed and slot then entered, failed = try_to_enter(slot, arguments[ties.slot + TIE_SIZE], name) end
  if not failed and not entered then
    failed = join(slot, arguments[ties.slot + TIE_SIZE + 1] .. payload)
  elseif not failed and group then
    failed = join_group(group, payload)
  elseif not failed and step == 'schedule' then
    reply = redis.pcall('ZADD', goal, name, payload)
  elseif not failed then
    redis.pcall('SADD', QUEUES, name)
    reply = redis.pcall('LPUSH', goal, payload)
  end
  failed = failed or (not group and type(reply) == 'table' and reply.err)
  if failed then
    -- The push did not happen, so its id must not stay. This deletes it at once, also where DEL is not allowed.
    if id then redis.pcall('EXPIRE', id_key, '0') end
    if lock then free_lock(lock_key, arguments[lock + TIE_SIZE]) end
    if slot then pcall(free_place, slot, arguments[ties.slot + TIE_SIZE]) end
    if counted then redis.pcall('HINCRBY', batch_key, 'total', '-1') end
    return 0, failed
  end

  if record then
    redis.pcall('DEL', record_key)
    if group then
      local at = group + TIE_SIZE
      note(record_key, arguments[record + TIE_SIZE], 'grouped', reason,
        {'class', class, 'queue', arguments[at + 11], 'group', arguments[at + 10]})
      return met or 1
    end
    local scheduled = step == 'schedule'
    note(record_key, arguments[record + TIE_SIZE], scheduled and 'scheduled' or 'waiting', reason,
      {'class', class, scheduled and 'due' or 'queue', name})
  end
  return met or 1
end
