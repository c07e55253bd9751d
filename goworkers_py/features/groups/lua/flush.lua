-- Claims a group that is due, or a set that has no aggregation job yet: the members of the group become a set, and the
-- job that aggregates the set comes into its queue. The first process that calls this does it.
-- KEYS: hash of the group, its list, the class's groups, registry of classes, list of the set, queues, queue
-- ARGV: the entry that is due, the entry of the set, class, queue, payload of the job
-- Answer: how many members the set has; 0: the group is not due, or has no members
local now, group = ...
local HASH, LIST, GROUPS, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local SET, QUEUES, QUEUE = KEYS[5], KEYS[6], KEYS[7]
local entry, set_entry, class, queue, payload = unpack(ARGV)
local due = redis.call('ZMSCORE', GROUPS, entry)[1]
if not due or tonumber(due) > tonumber(now) then return 0 end
redis.call('LLEN', QUEUE)

if entry ~= set_entry then
  local v = redis.call('HGET', HASH, 'v')
  if v and v ~= group.V then return {err = 'this group was written by another release of pyworkers'} end
  if redis.call('LLEN', LIST) == 0 then
    group.forget(HASH, GROUPS, entry)
    group.forget_class(REGISTRY, GROUPS, class)
    return 0
  end
  -- A server that is out of memory allows a script to write that has removed something.
  redis.call('ZREM', GROUPS, '')
  -- The set is known before it has members. Where the job cannot be pushed, the set is due as the group was.
  redis.call('ZADD', GROUPS, due, set_entry)
  if redis.call('RENAMENX', LIST, SET) == 0 then return 0 end
  group.forget(HASH, GROUPS, entry)
end
local size = redis.call('LLEN', SET)
if size == 0 then
  redis.call('ZREM', GROUPS, set_entry)
  group.forget_class(REGISTRY, GROUPS, class)
  return 0
end
redis.call('SADD', QUEUES, queue)
redis.call('LPUSH', QUEUE, payload)
redis.call('ZADD', GROUPS, group.INF, set_entry)
return size
