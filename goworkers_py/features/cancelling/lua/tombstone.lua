-- Leaves the tombstone of a job, or removes it because nobody is to meet the job any more.
-- KEYS: tombstones (also the channel), their version, answer to the one who cancels
-- ARGV: 'ask', jid, its tombstone, '1' when it only interrupts a run, seconds that a tombstone lives; or 'withdraw', jid,
--       its tombstone
-- Answer: 1; 0 when another tombstone stands, which stays
local TOMBSTONES, VERSION, ANSWER = KEYS[1], KEYS[2], KEYS[3]
local jid, tombstone = ARGV[2], ARGV[3]
local standing = redis.call('HGET', TOMBSTONES, jid)

-- A count could repeat: after a failover that has lost a write, say. Then a process would miss a tombstone.
local function change_version()
  local time = redis.call('TIME')
  redis.call('SET', VERSION, time[1] .. '.' .. time[2] .. ' ' .. jid)
end

if ARGV[1] == 'withdraw' then
  if standing ~= tombstone then return 0 end
  redis.call('HDEL', TOMBSTONES, jid)
  change_version()
  return 1
end
-- A cancel is not weakened to an interruption.
if standing and ARGV[4] == '1' and not string.find(standing, '"retry": true', 1, true) then return 0 end
-- An older answer is about another run. While there is a tombstone, somebody else waits for the answer too.
if redis.call('HSET', TOMBSTONES, jid, tombstone) == 1 then redis.call('DEL', ANSWER) end
redis.call('EXPIRE', TOMBSTONES, ARGV[5])
change_version()
redis.pcall('PUBLISH', TOMBSTONES, tombstone)
return 1
