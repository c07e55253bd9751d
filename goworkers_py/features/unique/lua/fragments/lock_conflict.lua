-- What a push needs that finds a lock, see lock.lua: few pushes do.
local now, lock, KEPT_S = ...

-- The holder of the lock gets the newest fields, if it has not begun. Where it waits for a later time than the newest
-- one, it gets that. (Where it waits for an earlier one, it waits again as it begins.) Returns false for a holder that
-- does not read them, and the error, if any.
local function replace(key, schedule, fields, life, due)
  local token = redis.pcall('HGET', key, 'token')
  if type(token) ~= 'string' then return false, token and token.err end
  local reply = redis.pcall('HSET', key, 'fields', fields, 'due', due)
  if type(reply) == 'table' then return false, reply.err end
  local left, longest = redis.pcall('TTL', key), math.max(life, KEPT_S)
  if type(left) == 'number' and left < longest then redis.pcall('EXPIRE', key, longest) end
  redis.pcall('ZADD', schedule, 'XX', 'LT', due == '' and now or due, token)
  return true
end

return {replace = replace, other_holder = lock.other_holder, free = lock.free}
