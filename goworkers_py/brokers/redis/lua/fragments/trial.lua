-- Where a script makes several pushes, each must be possible before the first one is made. So the commands of the pushes
-- are tried on a key that never exists, TRIAL. A script that gives no such key tries nothing. ZADD comes first: a server
-- that is out of memory refuses it, and no command after LREM.
local TRIAL = ...
local tried = {}

local function refused(commands)
  local values = {
    EXPIRE = {'1'}, HDEL = {''}, HEXISTS = {''}, HGET = {''}, HINCRBY = {'', '0'}, HMGET = {''}, HSET = {'', ''},
    LPUSH = {''}, LREM = {'0', ''}, RPUSH = {''}, SADD = {''}, SET = {'', 'XX'}, SREM = {''}, ZADD = {'XX', '0', ''},
  }
  for command in string.gmatch(commands, '%u+') do
    local reply = redis.pcall(command, TRIAL, unpack(values[command] or {}))
    if type(reply) == 'table' and reply.err then return reply.err end
  end
  return false
end

-- Returns the error that one of these commands would give, if any: names of commands with spaces between.
local function refusal(commands)
  if not TRIAL or not commands then return false end
  if tried[commands] == nil then tried[commands] = refused(commands) end
  return tried[commands]
end

return {refusal = refusal}
