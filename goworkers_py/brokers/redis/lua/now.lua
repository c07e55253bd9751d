-- Included by other scripts.
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2]) -- the time of this step
