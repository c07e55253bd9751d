-- The due entries of a sorted set by the server's own clock, and when the next one is due.
-- KEYS: set    ARGV: how many at most, how many to pass over
-- Answer: now, score of the first entry that is not due ('' when there is none), the due entries
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', ARGV[2], ARGV[1])
local next_one = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {now, next_one[2] or '', due}
