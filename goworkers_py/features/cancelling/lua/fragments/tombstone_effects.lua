-- The effect 'meet': removes the tombstone of a job, and tells who has cancelled it. It does not keep the job from being
-- settled. The values: numbers of the version and of the answer, then the answer.
local key_at, arguments, now = ...

local function apply(key, jid, first)
  if redis.pcall('HDEL', key, jid) ~= 1 then return end
  redis.pcall('SET', key_at(first), now .. ' ' .. jid) -- the version, see tombstone.lua
  redis.pcall('SET', key_at(first + 1), arguments[first + 2], 'EX', '60')
  redis.pcall('PUBLISH', key_at(first + 1), arguments[first + 2])
end

return {meet = {apply = apply}}
