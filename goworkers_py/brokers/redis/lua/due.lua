-- Reads the due entries of a sorted set, by the server's own clock, and when the next entry is due.
-- KEYS: set    ARGV: most entries to read, due entries to skip, bytes of entries after which to read no more
-- Answer: now, score of the first entry that is not due ('' when there is none), the due entries, 1 if there are more
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
local most, skip, enough = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local due, bytes, more, few = {}, 0, 1, 5
while more == 1 and #due < most and bytes < enough do
  -- Few at first, because entries may be large. Then more, because each look counts from the first entry again.
  few = math.min(50, few * 2)
  local asked = math.min(few, most - #due)
  local part = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', skip + #due, asked)
  if #part < asked then more = 0 end
  for _, entry in ipairs(part) do
    due[#due + 1] = entry
    bytes = bytes + #entry
  end
end
local next_one = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {now, next_one[2] or '', due, more}
