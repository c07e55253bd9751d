-- Publishes jobs of which some have an id. A job whose id was published within the life of an id is a duplicate.
-- KEYS: queues, schedule, then queues and the keys of ids, in any order
-- ARGV: life of an id, then for each job: number of its queue (0: it is scheduled), name of the queue or score, number of
--       the key of its id (0: none), payload
-- Answer: for each job 1: published, 0: a duplicate
local QUEUES, SCHEDULE, FIXED = KEYS[1], KEYS[2], 2
local answer, seen = {}, {}
for i = 2, #ARGV, 4 do
  local number, id = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  local key = KEYS[FIXED + id]
  local new = id == 0 or not (seen[id] or redis.call('EXISTS', key) == 1)
  seen[id] = true
  answer[#answer + 1] = new and 1 or 0
  -- Where a key has another type, the script fails here, before it has written anything.
  if number == 0 then redis.call('ZCARD', SCHEDULE) else redis.call('LLEN', KEYS[FIXED + number]) end
end
for job, new in ipairs(answer) do
  local i = 4 * job - 2
  local number, id = tonumber(ARGV[i]), tonumber(ARGV[i + 2])
  if new == 1 then
    -- First, so that a job is not published twice where this is refused.
    if id > 0 then redis.call('SET', KEYS[FIXED + id], '', 'EX', ARGV[1]) end
    local reply
    if number == 0 then
      reply = redis.pcall('ZADD', SCHEDULE, ARGV[i + 1], ARGV[i + 3])
    else
      redis.pcall('SADD', QUEUES, ARGV[i + 1])
      reply = redis.pcall('LPUSH', KEYS[FIXED + number], ARGV[i + 3])
    end
    if type(reply) == 'table' and reply.err then
      -- It was not published, so its id must not stay. This deletes it at once, also where DEL is not allowed.
      if id > 0 then redis.call('EXPIRE', KEYS[FIXED + id], '0') end
      return reply
    end
  end
end
return answer
