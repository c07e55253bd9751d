-- The time of this step, by the server's clock.
local time = redis.call('TIME')
return time[1] .. '.' .. string.sub('00000' .. time[2], -6) -- string.format takes as long as a command
