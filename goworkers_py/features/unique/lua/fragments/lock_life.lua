-- How long the lock of a unique job lasts, see lock.lua.
local lock, KEPT_S = ...
local now -- asked once, where a job waits for a time

-- The lock lasts for at least so many seconds from now on.
local function prolong(key, life)
  local left = redis.pcall('TTL', key)
  -- While its job ran, the lock had no time, and with it lost the long one that the newest fields need.
  if left == -1 and redis.pcall('HEXISTS', key, 'fields') == 1 then life = math.max(life, KEPT_S) end
  if type(left) == 'number' and left < tonumber(life) then redis.pcall('EXPIRE', key, life) end
end

-- For at least `for_s` seconds from the time on at which the job goes on.
local function keep(key, jid, for_s, due)
  if not lock.holds(key, jid) then return end
  local life = for_s
  if due ~= '' then
    now = now or redis.pcall('TIME')[1] or due -- refused: it lasts as if the job was due now
    life = for_s + math.max(0, math.floor(due - now))
  end
  prolong(key, life)
  redis.pcall('HDEL', key, 'owner')
  if due == '' then redis.pcall('HDEL', key, 'due') else redis.pcall('HSET', key, 'due', due) end
end

-- The lock ends with its owner, who runs the job: an outage that is longer than the time of the lock must not end it. Not
-- so of an owner that was declared dead, which `registry` tells: then the job was recovered, and waits or runs elsewhere.
local function own(key, registry, owner, life)
  if redis.pcall('HEXISTS', registry, owner) ~= 0 then return end
  local reply = redis.pcall('HSET', key, 'owner', owner)
  if type(reply) ~= 'table' then reply = redis.pcall('PERSIST', key) end
  if type(reply) == 'table' then prolong(key, life) end -- refused: as before, until the next call
end

return {prolong = prolong, keep = keep, own = own}
