-- Included by other scripts after push.lua, sidekiq_status.lua, ended.lua and a function `refusal`: the effects of a step,
-- see core/effect.py. An effect begins with a word, the number of its key, an option, and how many values follow; the
-- values of the effect 'once' are effects, which happen only if its key does not exist. 'post' is for a settlement only,
-- which has OUTBOXES.
-- include ruby_lock.lua
local STEPS = {push = 'back', post = 'back', later = 'schedule', value = 'value'}
-- An effect that cannot happen does not keep the job from its step.
local MAY_FAIL = {note = true, renote = true, meet = true, cursor = true, status = true, free = true, keep = true,
  unlock = true, relock = true, leave = true, hold = true}

-- Calls `act` for each effect in these arguments. Returns the error at which it stopped, if any.
local function each_effect(first, last, act)
  while first <= last do
    local word, key, count = arguments[first], key_at(first + 1), tonumber(arguments[first + 3])
    local failed = act(word, key, arguments[first + 2], first + 4, first + 3 + count)
    if failed then return word == 'once' and failed or failed .. ' (key ' .. key .. ')' end
    first = first + 4 + count
  end
end

local function wrong_type(step, key)
  return type_error((step == 'retry' or step == 'schedule' or step == 'dead') and 'ZCARD' or 'LLEN', key)
end

-- The error that the name of a line or of an outbox would give. Unlike a queue, one that is not registered may never be
-- registered again.
local function registry_error(key)
  return type_error('SREM', key, '') or trial_refusal('named')
end

-- The error that it would give to rename a set, if there is a new name for it.
local function rename_refusal(at)
  if arguments[at] == '0' then return false end
  local reply = redis.pcall('RENAMENX', trial, key_at(at))
  return not string.find(reply.err, 'no such key') and reply.err
end

-- The error that an effect would give, before anything is done: an item and its effects are settled all or not at all.
local function effect_refusal(word, key, option, first, last)
  if word == 'once' then return each_effect(first, last, effect_refusal) end
  if MAY_FAIL[word] then return false end
  if word == 'end' then return count_refusal(key, 'total') end
  if word == 'link' then return count_refusal(key, 'open') end
  if word == 'endset' then
    local reply = redis.pcall('ZREM', key_at(first), '')
    return type(reply) == 'table' and reply.err or rename_refusal(first + 3)
      or each_effect(first + 5, last, effect_refusal)
  end
  if word == 'member' then return type_error('LLEN', key) or each_effect(first, last, effect_refusal) end
  if word == 'born' then return refusal(arguments[first]) or check_push(first) end
  return refusal(STEPS[word]) or (word ~= 'value' and wrong_type(STEPS[word], key))
    or (word == 'post' and registry_error(OUTBOXES))
end

-- Removes the tombstone of a job, and tells who has cancelled it. It does not keep the job from being settled.
local function meet(key, jid, first)
  if redis.pcall('HDEL', key, jid) ~= 1 then return end
  redis.pcall('SET', key_at(first), now .. ' ' .. jid) -- the version, see tombstone.lua
  redis.pcall('SET', key_at(first + 1), arguments[first + 2], 'EX', '60')
  redis.pcall('PUBLISH', key_at(first + 1), arguments[first + 2])
end

-- Stores the cursor of an iterable job, see begin_iteration.lua, or forgets it. Nothing is done after a later run has
-- begun, or while the key is that of another job with the same jid. The job is settled in any case. The values: number of
-- the run, '1' at the end of the job, cursor, seconds, `of`.
local function store_cursor(key, life, first)
  local run, ex = arguments[first], redis.pcall('HGET', key, 'ex')
  if type(ex) == 'table' or (tonumber(ex or 0) or 0) > tonumber(run) then return end
  if ex and redis.pcall('HGET', key, 'of') ~= arguments[first + 4] then return end
  if arguments[first + 1] == '1' then return redis.pcall('DEL', key) end
  redis.pcall('HSET', key, 'ex', run, 'py', run, 'v', '1', 'c', arguments[first + 2], 'rt', arguments[first + 3],
    'of', arguments[first + 4])
  redis.pcall('EXPIRE', key, life)
end

-- Each of these calls passes as many values as Lua's `unpack` takes.
local AT_ONCE = 1000

-- What each word does: called with the key, the option, and the first and the last value. Returns the error, if any.
local EFFECTS = {}

local function apply(word, key, option, first, last)
  return EFFECTS[word](key, option, first, last)
end

-- The values are effects.
function EFFECTS.once(key, life, first, last)
  if not redis.call('SET', key, '', 'NX', 'EX', life) then return end
  local failed = each_effect(first, last, apply)
  if failed then redis.call('DEL', key) end
  return failed
end

-- The values: numbers of the class's groups and of the registry of classes, the class, the number of the set in which the
-- members go on (0: they are deleted) and its entry, then effects.
function EFFECTS.endset(set, entry, first, last)
  local groups, there = key_at(first), redis.pcall('EXISTS', set)
  if type(there) == 'table' then return there.err end
  local failed = there == 1 and each_effect(first + 5, last, apply)
  if failed then return failed end
  if there == 1 and arguments[first + 3] ~= '0' then
    redis.pcall('ZADD', groups, INF, arguments[first + 4])
    redis.pcall('RENAMENX', set, key_at(first + 3))
  elseif there == 1 and type(redis.pcall('UNLINK', set)) == 'table' then
    redis.pcall('DEL', set)
  end
  redis.pcall('ZREM', groups, entry)
  forget_class(key_at(first + 1), groups, arguments[first + 2])
end

-- The option is the payload of the member. The values are effects.
function EFFECTS.member(set, payload, first, last)
  if redis.pcall('LREM', set, '1', payload) == 1 then return each_effect(first, last, apply) end
end

-- The values: the number of the index of jobs that have ended so (0: none), the state, the reason, then the fields.
function EFFECTS.note(key, life, first, last)
  local state = arguments[first + 1]
  note(key, life, state, arguments[first + 2], arguments, first + 3, last)
  if arguments[first] ~= '0' then list_ended(key_at(first), key, state, life) end
end

function EFFECTS.renote(key, life, first, last)
  if is_tracked(key) then EFFECTS.note(key, life, first, last) end
end

-- The values: a push with ties.
function EFFECTS.born(_, _, first)
  local _, failed = push(first, 'pushed by a job', true)
  return failed
end

function EFFECTS.free(key, jid)
  free_lock(key, jid)
end

function EFFECTS.keep(key, jid, first)
  keep_lock(key, jid, arguments[first], arguments[first + 1])
end

-- The values: a slot of a limit. An error, of a damaged key say, must not end the step: a look mends the line later.
function EFFECTS.leave(_, jid, first)
  pcall(free_place, slot_at(first), jid)
end

function EFFECTS.hold(_, jid, first)
  pcall(hold_place, slot_at(first), jid)
end

-- The values: the part, how it has ended, jid, class, error, result, and the place of the chain.
function EFFECTS.link(_, number, first)
  end_link(chain_place(first + 6), tonumber(number), unpack(arguments, first, first + 5))
end

-- The values of both: the numbers of the six other keys of the lock, the digest.
local function keys_of_ruby_lock(key, first)
  local keys = {key}
  for at = first, first + 5 do keys[#keys + 1] = key_at(at) end
  return keys
end

function EFFECTS.unlock(key, jid, first)
  free_ruby_lock(keys_of_ruby_lock(key, first), arguments[first + 6], jid)
end

-- Two more values: how many jobs may hold the lock, its life in seconds.
function EFFECTS.relock(key, jid, first)
  take_ruby_lock(keys_of_ruby_lock(key, first), arguments[first + 6], jid, arguments[first + 7], arguments[first + 8])
end

-- The values: how a job has died, its jid, and the place of its batch.
EFFECTS['end'] = function(_, way, first)
  end_in_batch(batch_place(first + 2), 1, way, 1, arguments[first], arguments[first + 1])
end

function EFFECTS.meet(key, jid, first)
  meet(key, jid, first)
end

function EFFECTS.cursor(key, life, first)
  store_cursor(key, life, first)
end

-- The values: the channel, the jid, then names and values.
function EFFECTS.status(key, life, first, last)
  show_status(key, life, arguments[first], arguments[first + 1], arguments, first + 2, last)
end

local function write_all(command, key, first, last)
  for from = first, last, AT_ONCE do
    local reply = redis.pcall(command, key, unpack(arguments, from, math.min(last, from + AT_ONCE - 1)))
    if type(reply) == 'table' and reply.err then return reply.err end
  end
end

function EFFECTS.push(key, queue, first, last)
  redis.pcall('SADD', QUEUES, queue)
  return write_all('LPUSH', key, first, last)
end

function EFFECTS.post(key, to, first, last)
  redis.call('SADD', OUTBOXES, to)
  return write_all('LPUSH', key, first, last)
end

function EFFECTS.later(key, _, first, last)
  return write_all('ZADD', key, first, last)
end

function EFFECTS.value(key, life, first)
  local reply = redis.pcall('SET', key, arguments[first], 'EX', life)
  return type(reply) == 'table' and reply.err
end
