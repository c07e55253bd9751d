-- Does the effects of a move, which effects.lua has said to be possible. Returns the error, if one is refused all the same:
-- then the job goes back. An error that nobody has foreseen is returned too, because it must not end the script: the jobs
-- before have moved, and the caller would not know.
local effects = ...

return function(first, last)
  if first > last then return end
  local done, failed = pcall(effects.apply, first, last)
  if done then return failed end
  return type(failed) == 'table' and failed.err or tostring(failed)
end
