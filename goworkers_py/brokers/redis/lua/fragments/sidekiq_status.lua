-- `show` writes what the gem sidekiq-status shows of a job, see features/ruby_status/payload.py.
-- Like a record, it never keeps a job from being settled. `words` from `first` to `last` are names and values.
local arguments = ...

local function show(key, life, channel, jid, words, first, last)
  redis.pcall('HSET', key, 'jid', jid, unpack(words, first, last))
  local left = redis.pcall('TTL', key)
  if type(left) ~= 'number' or left < tonumber(life) then redis.pcall('EXPIRE', key, life) end
  redis.pcall('PUBLISH', channel, jid)
end

-- The effect's values: the channel, the jid, then names and values.
local function apply(key, life, first, last)
  show(key, life, arguments[first], arguments[first + 1], arguments, first + 2, last)
end

return {show = show, status = {apply = apply}}
