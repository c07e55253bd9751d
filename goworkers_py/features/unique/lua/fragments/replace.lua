-- The holder of a lock gets the newest fields, if it has not begun. Where it waits for a later time than the newest one, it
-- gets that. (Where it waits for an earlier one, it waits again as it begins.) Returns false for a holder that does not
-- read them, and the error, if any.
local make_now, KEPT_S = ...

return function(key, schedule, fields, for_s, due)
  local token = redis.pcall('HGET', key, 'token')
  if type(token) ~= 'string' then return false, token and token.err end
  local now, life = make_now(), for_s -- before the first write: TIME may be denied
  if due ~= '' then life = for_s + math.max(0, math.floor(due - now)) end
  local reply = redis.pcall('HSET', key, 'fields', fields, 'due', due)
  if type(reply) == 'table' then return false, reply.err end
  local left, longest = redis.pcall('TTL', key), math.max(life, KEPT_S)
  if type(left) == 'number' and left < longest then redis.pcall('EXPIRE', key, longest) end
  redis.pcall('ZADD', schedule, 'XX', 'LT', due == '' and now or due, token)
  return true
end
