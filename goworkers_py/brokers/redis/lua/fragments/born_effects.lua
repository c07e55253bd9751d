-- The effect 'born': a job pushes another one with ties. The values: the push.
local arguments, refusal, check_push, push = ...

local function refuse(_, _, first)
  return refusal(arguments[first]) or check_push(first)
end

local function apply(_, _, first)
  local _, failed = push(first, 'pushed by a job', true)
  return failed
end

return {born = {refusal = refuse, apply = apply}}
