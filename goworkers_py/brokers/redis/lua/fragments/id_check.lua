-- Whether the id is there is asked without a look at its type: a push would be taken for a duplicate.
local key_at, type_error = ...

local function check(at)
  return type_error('GET', key_at(at + 1))
end

return {tries = 'SET', check = check}
