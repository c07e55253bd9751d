-- Of the push of a tracked job.
local key_at, type_error = ...

local function check(at)
  return type_error('HLEN', key_at(at + 1))
end

return {check = check}
