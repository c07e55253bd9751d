-- Publishes one job that has a record and no other tie: what publish_one.lua does, without the parts that other ties need.
-- KEYS: queues, the queue or the schedule, the record
-- ARGV: the name of the queue, when the job is due ('': now), payload, class, life of the record, and the version of the
--       record that it replaces: a push whose job has another record is a duplicate
-- Answer: 1, or 0: a duplicate
local key, queue, due, payload, class, life = KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local new_record, make_note, make_same_record = ...
local known = redis.pcall('HLEN', key)
if known ~= 0 then
  if type(known) == 'table' then return {err = known.err} end
  if not make_same_record()(key, ARGV[6]) then return 0 end
end
local state, field, name, reply = 'waiting', 'queue', queue, nil
if due ~= '' then
  state, field, name = 'scheduled', 'due', due
  reply = redis.pcall('ZADD', KEYS[2], due, payload)
else
  redis.pcall('SADD', KEYS[1], queue)
  reply = redis.pcall('LPUSH', KEYS[2], payload)
end
if type(reply) == 'table' then return {err = reply.err} end
if known == 0 then
  new_record(key, life, class, state, field, name, 'pushed')
else
  redis.pcall('DEL', key) -- where DEL is not allowed, `note` goes on with the record
  make_note().write(key, life, state, 'pushed', {'class', class, field, name})
end
return 1
