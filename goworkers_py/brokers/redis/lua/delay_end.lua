-- After runs of tasks of a delay queue: deletes, saves or frees those on which the owner still has this claim.
-- KEYS: tasks, due times, claims
-- ARGV: claim and owner, then for each task its id, its next due time and its record. The time is empty for a task that is
--   deleted, and the record for one that is freed
-- Answer: for how many tasks the owner still had this claim
local TASKS, DUE, CLAIMS = KEYS[1], KEYS[2], KEYS[3]
redis.call('ZMSCORE', DUE, '')
redis.call('HGET', TASKS, '')
local claim, ended = ARGV[1], 0
for at = 2, #ARGV, 3 do
  local id, due, record = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if redis.call('HGET', CLAIMS, id) == claim then
    ended = ended + 1
    if due == '' then
      redis.call('HDEL', TASKS, id)
      redis.call('ZREM', DUE, id)
    elseif record ~= '' then
      redis.call('HSET', TASKS, id, record)
      redis.call('ZADD', DUE, due, id)
    end
    redis.call('HDEL', CLAIMS, id)
  end
end
return ended
