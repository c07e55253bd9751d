-- The values of the effect 'once' are effects, which happen only if its key does not exist.
local function refusal(_, _, first, last, effects)
  return effects.refusal(first, last)
end

local function apply(key, life, first, last, effects)
  if not redis.call('SET', key, '', 'NX', 'EX', life) then return end
  local failed = effects.apply(first, last)
  if failed then redis.call('DEL', key) end
  return failed
end

return {once = {refusal = refusal, apply = apply}}
