-- A job joins a group, and the goal of its push is not used. The values of the tie: numbers of the list, of the class's groups, of the registry of classes and of a new set's
-- list, then the entry of the group, the name of the new set, the class, grace, delay, size, name of the group, queue.
local key_at, arguments, now, group, group_check, TIE_SIZE = ...

local tie_itself = {}

local closed = 0 -- sets that this step has made: they are flushed in this order

-- The payload joins the group of the tie. The group of the right size becomes a set, which takes no more members: its
-- list gets the new set's name. Returns the error, if any; then nothing has joined.
local function put(job, tie)
  local at = tie + TIE_SIZE
  local hash, list, groups = key_at(tie + 1), key_at(at), key_at(at + 1)
  local entry, new_set, class = arguments[at + 4], arguments[at + 5], arguments[at + 6]
  local failed = group_check.check(tie)
  if failed then return failed end
  local values = redis.pcall('HMGET', hash, 'first', 'own_grace', 'own_delay', 'own_size')
  if values.err then return values.err end
  local first, own_grace, own_delay, own_size = unpack(values)
  local grace, delay, size =
    group.settings_of(own_grace, own_delay, own_size, arguments[at + 7], arguments[at + 8], arguments[at + 9])
  local count = redis.call('LLEN', list) + 1
  local due = group.due_of(tonumber(first or now), tonumber(now), grace, delay, size, count)
  local reply = redis.pcall('SADD', key_at(at + 2), class)
  if type(reply) == 'table' then return reply.err end
  reply = redis.pcall('HSET', hash, 'v', group.V, 'first', first or now, 'last', now, 'grace', arguments[at + 7],
    'delay', arguments[at + 8], 'size', arguments[at + 9])
  if type(reply) == 'table' then return reply.err end
  -- Before the member: a group that is due and has no members is harmless, one with members that is not due is not.
  reply = redis.pcall('ZADD', groups, group.text_of(due), entry)
  if type(reply) == 'table' then return reply.err end
  reply = redis.pcall('RPUSH', list, job.payload)
  if type(reply) == 'table' then return reply.err end
  -- The set is known before it has members, as in flush.lua.
  local known = size > 0 and count >= size
    and redis.pcall('ZADD', groups, group.text_of(now + closed / 1e6), entry .. ' ' .. new_set)
  if type(known) == 'number' and redis.pcall('RENAMENX', list, key_at(at + 3)) == 1 then
    closed = closed + 1
    group.forget(hash, groups, entry)
  end
end

-- Another tie that has sent the job elsewhere goes before.
local function decide(job, at)
  if job.moved then return 'dropped' end
  job.step, job.goes_by, job.goes_at = 'group', tie_itself, at
  job.group, job.name = arguments[at + TIE_SIZE + 10], arguments[at + TIE_SIZE + 11]
end

tie_itself.decide, tie_itself.put = decide, put
return tie_itself
