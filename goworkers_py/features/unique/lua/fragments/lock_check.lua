-- Of a push that takes a lock, see lock_tie.lua.
local key_at, arguments, lock, type_error, TIE_SIZE = ...

local function check(at)
  return type_error('HLEN', key_at(at + 1)) or type_error('ZCARD', key_at(at + TIE_SIZE + 4))
end

-- The job whose lock forbids the push, if the push waits for nothing. The second result is an error.
local function holder(tie)
  local at = tie + TIE_SIZE
  if arguments[at + 2] ~= 'skip' and arguments[at + 2] ~= 'raise' then return end
  local other, _, unread = lock.other_holder(key_at(tie + 1), '', arguments[at + 3])
  return other, unread
end

return {tries = 'HMGET HDEL HSET HDEL EXPIRE', check = check, holder = holder}
