-- Included by other scripts. `show_status` writes what the gem sidekiq-status shows of a job, see wire/sidekiq_status.py.
-- Like a record, it never keeps a job from being settled. `words` from `first` to `last` are names and values.
local function show_status(key, life, channel, jid, words, first, last)
  redis.pcall('HSET', key, 'jid', jid, unpack(words, first, last))
  local left = redis.pcall('TTL', key)
  if type(left) ~= 'number' or left < tonumber(life) then redis.pcall('EXPIRE', key, life) end
  redis.pcall('PUBLISH', channel, jid)
end
