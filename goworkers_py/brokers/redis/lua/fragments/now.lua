-- The time of this step, by the server's clock.
local time = redis.call('TIME')
-- Nine of ten times have six digits behind the point. Each text that is made takes a tenth of a command, and string.format
-- takes as long as a command.
return time[1] .. '.' .. (#time[2] == 6 and time[2] or string.sub('00000' .. time[2], -6))
