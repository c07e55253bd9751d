-- A job takes a lock, see lock.lua. Returns the error, if any. `for_s`: how long the lock lasts from the time on at which
-- the job is due; `at`: the time of the push, by the server's clock where `due` is a time; `held`: another job held the
-- lock. The newest fields of a job that has not begun are nowhere else, so the lock with their token lives for KEPT_S at
-- least.
local LOCK_V, KEPT_S = ...
local last_for_s, last_due, last_life -- of the job before: many jobs of a push last equally long

return function(key, jid, for_s, queue, at, due, token, held)
  local life, reply = for_s, nil
  if due ~= '' then
    if for_s ~= last_for_s or due ~= last_due then
      last_for_s, last_due = for_s, due
      last_life = string.format('%d', for_s + math.max(0, math.floor(due - at)))
    end
    life = last_life
  end
  if held then redis.pcall('DEL', key) end
  if token ~= '' and tonumber(life) < tonumber(KEPT_S) then life = KEPT_S end -- texts: a number takes long to write
  if due == '' and token == '' then
    reply = redis.pcall('HSET', key, 'v', LOCK_V, 'jid', jid, 'queue', queue, 'at', at)
  elseif due == '' then
    reply = redis.pcall('HSET', key, 'v', LOCK_V, 'jid', jid, 'queue', queue, 'at', at, 'token', token)
  else
    local more = token == '' and {'due', due} or {'due', due, 'token', token}
    reply = redis.pcall('HSET', key, 'v', LOCK_V, 'jid', jid, 'queue', queue, 'at', at, unpack(more))
  end
  if type(reply) == 'table' then return reply.err end
  reply = redis.pcall('EXPIRE', key, life)
  if type(reply) == 'table' then -- a lock that nothing ends must not stay
    redis.pcall('DEL', key)
    return reply.err
  end
end
