-- A push whose id is known is a duplicate. The value: the life of the id.
local key_at, arguments, TIE_SIZE = ...

local function decide(_, at)
  if redis.pcall('EXISTS', key_at(at + 1)) == 1 then return 0 end
end

local function take(_, at)
  return redis.pcall('SET', key_at(at + 1), '', 'EX', arguments[at + TIE_SIZE]).err
end

-- This deletes it at once, also where DEL is not allowed.
local function undo(_, at)
  redis.pcall('EXPIRE', key_at(at + 1), '0')
end

return {decide = decide, take = take, undo = undo}
