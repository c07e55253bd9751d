-- Publishes jobs of which some have an id or are tracked. A job whose id was published within the life of an id, or that
-- has a record, is a duplicate.
-- KEYS: queues, schedule, then queues, the keys of ids and records, in any order
-- ARGV: life of an id, then for each job: number of its queue (0: it is scheduled), name of the queue or score, number of
--       the key of its id (0: none), number of its record (0: none), life of the record, the version of the record that
--       it replaces, class, payload
-- Answer: for each job 1: published, 0: a duplicate
-- include note.lua
local QUEUES, SCHEDULE, FIXED, SIZE = KEYS[1], KEYS[2], 2, 8
local answer, seen = {}, {}

-- Whether a key of an id or a record is there, or one of an earlier job of this call.
local function is_known(number, version)
  if number == 0 then return false end
  local there = redis.call('EXISTS', KEYS[FIXED + number]) == 1
  local known = seen[number] or (there and not is_version(KEYS[FIXED + number], version))
  seen[number] = true
  return known
end

for i = 2, #ARGV, SIZE do
  local number = tonumber(ARGV[i])
  local id_known, tracked = is_known(tonumber(ARGV[i + 2]), ''), is_known(tonumber(ARGV[i + 3]), ARGV[i + 5])
  answer[#answer + 1] = (id_known or tracked) and 0 or 1
  -- Where a key has another type, the script fails here, before it has written anything.
  if number == 0 then redis.call('ZCARD', SCHEDULE) else redis.call('LLEN', KEYS[FIXED + number]) end
end
for job, new in ipairs(answer) do
  local i = 2 + SIZE * (job - 1)
  local number, name, id, record = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  local life, class, payload = ARGV[i + 4], ARGV[i + 6], ARGV[i + 7]
  if new == 1 then
    -- First, so that a job is not published twice where this is refused.
    if id > 0 then redis.call('SET', KEYS[FIXED + id], '', 'EX', ARGV[1]) end
    local reply
    if number == 0 then
      reply = redis.pcall('ZADD', SCHEDULE, name, payload)
    else
      redis.pcall('SADD', QUEUES, name)
      reply = redis.pcall('LPUSH', KEYS[FIXED + number], payload)
    end
    if type(reply) == 'table' and reply.err then
      -- It was not published, so its id must not stay. This deletes it at once, also where DEL is not allowed.
      if id > 0 then redis.call('EXPIRE', KEYS[FIXED + id], '0') end
      return reply
    end
    if record > 0 then redis.pcall('DEL', KEYS[FIXED + record]) end
    if record > 0 and number == 0 then
      note(KEYS[FIXED + record], life, 'scheduled', 'pushed', {'class', class, 'due', name})
    elseif record > 0 then
      note(KEYS[FIXED + record], life, 'waiting', 'pushed', {'class', class, 'queue', name})
    end
  end
end
return answer
