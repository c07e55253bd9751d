-- A lock of the gem sidekiq-unique-jobs, in the keys of its releases 7 and 8:
--   DIGEST:LOCKED             a hash of the jids that hold it, each with the time
--   DIGEST                    the jid that took it last
--   DIGEST:QUEUED, DIGEST:PRIMED   lists of jids on their way to the lock; "1" in QUEUED wakes who waits for it
--   DIGEST:INFO               for people
--   uniquejobs:digests, uniquejobs:expiring_digests   all locks
-- `keys` are these, in the order LOCKED, DIGEST, QUEUED, PRIMED, INFO, digests, expiring_digests.
local now = ...
local WOKEN_S = '5' -- as long as the gem lets the "1" live

local function free(keys, digest, jid)
  local locked, last, queued, primed = keys[1], keys[2], keys[3], keys[4]
  if redis.pcall('HEXISTS', locked, jid) ~= 1 then return end
  redis.pcall('HDEL', locked, jid)
  redis.pcall('LREM', queued, '-1', jid)
  redis.pcall('LREM', primed, '-1', jid)
  redis.pcall('DEL', last, keys[5])
  if redis.pcall('HLEN', locked) == 0 then
    redis.pcall('ZREM', keys[6], digest)
    redis.pcall('ZREM', keys[7], digest)
  end
  redis.pcall('LPUSH', queued, '1')
  redis.pcall('EXPIRE', queued, WOKEN_S)
end

-- Returns whether the job holds the lock now.
local function take(keys, digest, jid, limit, ttl)
  local locked, last = keys[1], keys[2]
  if redis.pcall('HEXISTS', locked, jid) == 1 then return true end
  local held = redis.pcall('HLEN', locked)
  if type(held) == 'table' or held >= tonumber(limit) then return false end
  if type(redis.pcall('HSET', locked, jid, now)) == 'table' then return false end
  redis.pcall('SET', last, jid)
  redis.pcall('ZADD', keys[6], now, digest)
  if ttl ~= '0' then
    redis.pcall('EXPIRE', locked, ttl)
    redis.pcall('EXPIRE', last, ttl)
  end
  return true
end

return {free = free, take = take}
