-- Of a push that joins a group, see group_tie.lua.
local key_at, group, TIE_SIZE = ...

local function check(tie)
  local at = tie + TIE_SIZE
  local version = redis.pcall('HGET', key_at(tie + 1), 'v')
  if type(version) == 'table' then return version.err end
  if version and version ~= group.V then return 'this group was written by another release of pyworkers' end
  local replies = {
    redis.pcall('LLEN', key_at(at)), redis.pcall('ZCARD', key_at(at + 1)), redis.pcall('SREM', key_at(at + 2), ''),
  }
  for _, reply in ipairs(replies) do
    if type(reply) == 'table' then return reply.err end
  end
end

return {tries = 'HMGET HDEL HSET HDEL SREM SADD SREM ZADD LREM RPUSH LREM', check = check}
