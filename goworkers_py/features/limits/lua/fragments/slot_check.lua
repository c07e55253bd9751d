-- Of a push that takes a place, see slot_tie.lua.
local limit, TIE_SIZE = ...

local function check(at)
  return limit.error((limit.at(at + TIE_SIZE + 2)))
end

return {
  tries = 'HMGET HGET HLEN HEXISTS LLEN HDEL HSET HDEL EXPIRE PERSIST SREM SADD SREM ZADD LREM LPUSH LREM',
  check = check,
}
