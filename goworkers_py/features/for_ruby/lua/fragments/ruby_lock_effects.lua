-- The effects on a lock of the gem sidekiq-unique-jobs.
local key_at, arguments, ruby_lock = ...

-- The values of both: the numbers of the six other keys of the lock, the digest.
local function keys_of(key, first)
  local keys = {key}
  for at = first, first + 5 do keys[#keys + 1] = key_at(at) end
  return keys
end

local function unlock(key, jid, first)
  ruby_lock.free(keys_of(key, first), arguments[first + 6], jid)
end

-- Two more values: how many jobs may hold the lock, its life in seconds.
local function relock(key, jid, first)
  ruby_lock.take(keys_of(key, first), arguments[first + 6], jid, arguments[first + 7], arguments[first + 8])
end

return {unlock = {apply = unlock}, relock = {apply = relock}}
