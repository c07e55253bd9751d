-- What the gem sidekiq-status shows of a job, see features/ruby_status/status.py. Like a record, it never keeps a job from
-- being settled. The values of the effect: the channel, the jid, then names and values of the hash.
local arguments = ...

local function status(key, life, first, last)
  redis.pcall('HSET', key, 'jid', arguments[first + 1], unpack(arguments, first + 2, last))
  local left = redis.pcall('TTL', key)
  if type(left) ~= 'number' or left < tonumber(life) then redis.pcall('EXPIRE', key, life) end
  redis.pcall('PUBLISH', arguments[first], arguments[first + 1])
end

return {status = {apply = status}}
