-- Included by push.lua. Where a script makes several pushes, each must be possible before the first one is made. So the
-- script sets `trial` to a key that never exists, and the commands of the pushes are tried on it. A script that leaves
-- `trial` as it is tries nothing. ZADD first: a server that is out of memory refuses it, and no command after LREM.
local trial, tried = nil, {}

-- Returns the error, if any. `word`: a goal or a tie, see push.lua.
local function refused_trial(word)
  local commands = {
    back = 'ZADD LREM LPUSH LREM', schedule = 'ZADD', id = 'SET', lock = 'HMGET HDEL HSET HDEL EXPIRE',
    batch = 'HMGET HDEL HINCRBY HDEL', group = 'HMGET HDEL HSET HDEL SREM SADD SREM ZADD LREM RPUSH LREM',
    slot = 'HMGET HGET HLEN HEXISTS LLEN HDEL HSET HDEL EXPIRE PERSIST SREM SADD SREM ZADD LREM LPUSH LREM',
    places = 'HDEL HSET HDEL EXPIRE PERSIST', park = 'ZADD LREM RPUSH LREM DEL', named = 'SREM SADD SREM',
  }
  local values = {
    EXPIRE = {'1'}, HDEL = {''}, HEXISTS = {''}, HGET = {''}, HINCRBY = {'', '0'}, HMGET = {''}, HSET = {'', ''},
    LPUSH = {''}, LREM = {'0', ''}, RPUSH = {''}, SADD = {''}, SET = {'', 'XX'}, SREM = {''}, ZADD = {'XX', '0', ''},
  }
  for command in string.gmatch(commands[word] or '', '%u+') do
    local reply = redis.pcall(command, trial, unpack(values[command] or {}))
    if type(reply) == 'table' and reply.err then return reply.err end
  end
  return false
end

local function trial_refusal(word)
  if not trial then return false end
  if tried[word] == nil then tried[word] = refused_trial(word) end
  return tried[word]
end
