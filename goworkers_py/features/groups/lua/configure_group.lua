-- Gives a group settings of its own, which hold at once.
-- KEYS: hash of the group, its list, the class's groups, registry of classes
-- ARGV: the entry, class, grace, delay, size ('': those of the members hold)
local now, group = ...
local HASH, LIST, GROUPS, REGISTRY = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local entry, class = ARGV[1], ARGV[2]
local v = redis.call('HGET', HASH, 'v')
if v and v ~= group.V then return {err = 'this group was written by another release of pyworkers'} end
redis.call('SADD', REGISTRY, class)
redis.call('HSET', HASH, 'v', group.V)
for at, name in ipairs({'own_grace', 'own_delay', 'own_size'}) do
  if ARGV[2 + at] == '' then redis.call('HDEL', HASH, name) else redis.call('HSET', HASH, name, ARGV[2 + at]) end
end
local count = redis.call('LLEN', LIST)
if count == 0 then
  group.forget(HASH, GROUPS, entry)
  group.forget_class(REGISTRY, GROUPS, class)
  return 0
end
local values = redis.call('HMGET', HASH, 'first', 'last', 'own_grace', 'own_delay', 'own_size', 'grace', 'delay', 'size')
local grace, delay, size = group.settings_of(unpack(values, 3, 8))
redis.call('ZADD', GROUPS, group.text_of(group.due_of(tonumber(values[1] or now), tonumber(values[2] or now), grace, delay, size, count)),
  entry)
return 1
