-- Gives the key whose number is in this argument. FIXED keys of the script come before those that are numbered.
local FIXED, arguments = ...

return function(at)
  return KEYS[FIXED + arguments[at]]
end
