-- An owner has a lease on a delay queue from now on. Owners whose lease has expired an hour ago are forgotten: a claim
-- of an owner that is not known does not count either.
-- KEYS: owners
-- ARGV: owner, seconds
-- include now.lua
local OWNERS, FORGOTTEN_S = KEYS[1], 3600
redis.call('ZADD', OWNERS, tonumber(now) + tonumber(ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', OWNERS, '-inf', tonumber(now) - FORGOTTEN_S)
return now
