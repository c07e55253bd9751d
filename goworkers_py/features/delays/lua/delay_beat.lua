-- An owner has a lease on a delay queue from now on. Owners whose lease has expired an hour ago are forgotten: a claim
-- of an owner that is not known does not count either.
-- KEYS: owners
-- ARGV: owner, seconds, the longest lease that any owner asks for
-- Answer: the time of this step
local now = ...
local OWNERS, FORGOTTEN_S = KEYS[1], 3600
local owner, lease_s, now_s = ARGV[1], tonumber(ARGV[2]), tonumber(now)
local last, until_, latest = redis.call('ZMSCORE', OWNERS, owner)[1], now_s + lease_s, now_s + tonumber(ARGV[3])
local latest_end = redis.call('ZREVRANGE', OWNERS, '0', '0', 'WITHSCORES')[2]
redis.call('ZADD', OWNERS, until_, owner)
-- A lease ends later than that only where the clock of this server was set back. Owners that live renew theirs.
for _, other in ipairs(redis.call('ZRANGEBYSCORE', OWNERS, '(' .. latest, '+inf')) do
  redis.call('ZADD', OWNERS, latest, other)
end
-- Since when nothing was heard of this owner, which lives, or of any owner: the server was away, its clock was set forward,
-- or they stood still. So leases that have ended since then are no proof of a death: who lives renews, and the others end
-- once more. A lease that was given this way ends at a whole second, which tells it from one that its owner has asked for,
-- and is given once: else a process that beats seldom would keep the lease of a dead one for ever.
local since = last and tonumber(last) <= now_s + lease_s / 2 and last - lease_s
if not last and latest_end and tonumber(latest_end) <= now_s then since = latest_end - lease_s end
if since then
  local ended = redis.call('ZRANGEBYSCORE', OWNERS, since, now, 'WITHSCORES')
  for i = 1, #ended, 2 do
    if ended[i + 1] % 1 ~= 0 then redis.call('ZADD', OWNERS, math.floor(until_), ended[i]) end
  end
end
redis.call('ZREMRANGEBYSCORE', OWNERS, '-inf', now_s - FORGOTTEN_S)
return {now}
