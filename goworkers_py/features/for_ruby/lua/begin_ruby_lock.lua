-- A job begins that has a lock of the gem sidekiq-unique-jobs, see ruby_lock.lua.
-- KEYS: the seven keys of its lock, then those of the lock without which it must not run, which may be the same
-- ARGV: jid, digest, digest of the second lock, '1' where the first one ends as the job begins, '1' where the job needs
--       the second one, how many jobs may hold that at once, its life in seconds (0: it has no end)
-- Answer: 1, or 0 where other jobs hold the second lock; then nothing was done
local ruby_lock = ...
local jid, first, second = ARGV[1], {unpack(KEYS, 1, 7)}, {unpack(KEYS, 8, 14)}
-- Fails here, before anything is done, where the access rules do not allow the keys.
redis.call('HLEN', KEYS[1])
if ARGV[5] == '1' and not ruby_lock.take(second, ARGV[3], jid, ARGV[6], ARGV[7]) then return 0 end
if ARGV[4] == '1' then ruby_lock.free(first, ARGV[2], jid) end
return 1
