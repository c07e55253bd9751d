-- Moves due entries into their queues. Each is written to its new place first and removed then, and only where it
-- still was in the set and due: another program may have been faster, or may have put it off.
-- KEYS: set, queues, dead, a key that never exists, then queues
-- ARGV: now, then for each entry: number of its queue (0: to the dead set unchanged), queue name, entry, new payload
-- Answer: the texts of the errors that left entries where they were
redis.call('DEL', KEYS[4]) -- a script that has begun to write is let go on when the server is out of memory
local errors = {}
for i = 2, #ARGV, 4 do
  local entry = ARGV[i + 2]
  local at = redis.call('ZSCORE', KEYS[1], entry)
  if at and tonumber(at) <= tonumber(ARGV[1]) then
    local reply
    if ARGV[i] == '0' then
      reply = redis.pcall('ZADD', KEYS[3], ARGV[1], entry)
    else
      reply = redis.pcall('LPUSH', KEYS[4 + tonumber(ARGV[i])], ARGV[i + 3])
    end
    if type(reply) == 'table' and reply.err then
      errors[#errors + 1] = reply.err
    else
      if ARGV[i] ~= '0' then redis.pcall('SADD', KEYS[2], ARGV[i + 1]) end
      redis.call('ZREM', KEYS[1], entry)
    end
  end
end
return errors
