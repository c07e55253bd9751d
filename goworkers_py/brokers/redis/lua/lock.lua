-- Included by other scripts, which have `now`. The lock of a unique job is a hash:
--   v, jid, queue, at         the version, the job that holds it, its queue, and when it got the lock
--   due                       when the job is due, if it waits for a time
--   token                     the payload of a job that reads `fields` as it begins; it goes as the job begins
--   owner                     the identity of the process that runs the job. It counts while the lock has no time to
--                             live: releases that do not know it give the lock a time and leave the field
--   fields                    the fields with which the job is to run instead of its own, as a JSON object
-- A lock of another version is left alone.
local LOCK_V = '1'
-- The newest fields of a job that has not begun are nowhere else, so they live for so long at least: LIVE_S of
-- features/tracking/record.py.
local LOCK_LIVES_S = 7776000

local function holds(key, jid)
  return redis.pcall('HGET', key, 'v') == LOCK_V and redis.pcall('HGET', key, 'jid') == jid
end

local function free_lock(key, jid)
  if holds(key, jid) then redis.pcall('DEL', key) end
end

-- The lock lasts for at least so many seconds from now on.
local function prolong_lock(key, life)
  local left = redis.pcall('TTL', key)
  -- While its job ran, the lock had no time, and with it lost the long one that the newest fields need.
  if left == -1 and redis.pcall('HEXISTS', key, 'fields') == 1 then life = math.max(life, LOCK_LIVES_S) end
  if type(left) == 'number' and left < tonumber(life) then redis.pcall('EXPIRE', key, life) end
end

local function keep_lock(key, jid, life, due)
  if not holds(key, jid) then return end
  prolong_lock(key, life)
  redis.pcall('HDEL', key, 'owner')
  if due == '' then redis.pcall('HDEL', key, 'due') else redis.pcall('HSET', key, 'due', due) end
end

-- The lock ends with its owner, who runs the job: an outage that is longer than the time of the lock must not end it. Not
-- so of an owner that was declared dead, which `registry` tells: then the job was recovered, and waits or runs elsewhere.
local function own_lock(key, registry, owner, life)
  if redis.pcall('HEXISTS', registry, owner) ~= 0 then return end
  local reply = redis.pcall('HSET', key, 'owner', owner)
  if type(reply) ~= 'table' then reply = redis.pcall('PERSIST', key) end
  if type(reply) == 'table' then prolong_lock(key, life) end -- refused: as before, until the next call
end

-- Returns the error, if any. `held`: another job held the lock.
local function take_lock(key, jid, life, queue, due, token, held)
  if held then redis.pcall('DEL', key) end
  local reply = redis.pcall('HSET', key, 'v', LOCK_V, 'jid', jid, 'queue', queue, 'at', now)
  if type(reply) == 'table' then return reply.err end
  if due ~= '' then redis.pcall('HSET', key, 'due', due) end
  if token ~= '' then
    redis.pcall('HSET', key, 'token', token)
    life = math.max(life, LOCK_LIVES_S)
  end
  reply = redis.pcall('EXPIRE', key, life)
  if type(reply) == 'table' then -- a lock that nothing ends must not stay
    redis.pcall('DEL', key)
    return reply.err
  end
end

-- The holder as {jid, queue, at, due}; nil when the lock is free, or its holder is `jid` or `instead_of`. A lock of
-- another version is held by a job that nobody knows. The second value says whether there is a lock, the third one is the
-- error if it cannot be read.
local function other_holder(key, jid, instead_of)
  local told = redis.pcall('HMGET', key, 'v', 'jid', 'queue', 'at', 'due')
  if told.err or not told[1] then return nil, false, told.err end
  if told[1] ~= LOCK_V then return {'', '', '0', ''} end
  if told[2] == jid or told[2] == instead_of then return nil, true end
  return {told[2], told[3] or '', told[4] or '0', told[5] or ''}
end
