-- Included by push.lua. An open group is a list of its members' payloads and a hash:
--   v, first, last            the version, when its first and its last member joined
--   grace, delay, size        the settings of the last push, in seconds; 0: without this limit
--   own_grace, own_delay, own_size   those that people have set for this group: they go before
-- The groups of a class are in a set, each by the time at which it is due: `entry` of group_entry.py, and for a set of
-- members `entry set`. INF: it is not due, because its aggregation job was pushed, or it has no members.
-- A group of another version is left alone.
local GROUP_V, INF = '1', 'inf'

local function text_of(time)
  return string.format('%.6f', time)
end

-- The time at which a group with so many members is due.
local function due_of(first, last, grace, delay, size, count)
  if size > 0 and count >= size then return last end
  local due = last + grace
  return delay > 0 and math.min(due, first + delay) or due
end

-- The settings that hold, of a group with these own ones.
local function settings_of(own_grace, own_delay, own_size, grace, delay, size)
  return tonumber(own_grace or grace) or 0, tonumber(own_delay or delay) or 0, tonumber(own_size or size) or 0
end

-- A group without members is forgotten, but for its own settings.
local function forget_group(hash, groups, entry)
  redis.pcall('HDEL', hash, 'first', 'last', 'grace', 'delay', 'size')
  local fields = redis.pcall('HLEN', hash)
  if type(fields) == 'number' and fields <= 1 then
    redis.pcall('DEL', hash)
    redis.pcall('ZREM', groups, entry)
  else
    redis.pcall('ZADD', groups, INF, entry)
  end
end

local function forget_class(registry, groups, class)
  if redis.pcall('ZCARD', groups) == 0 then redis.pcall('SREM', registry, class) end
end

-- The values of the tie: numbers of the list, of the class's groups, of the registry of classes and of a new set's
-- list, then the entry of the group, the name of the new set, the class, grace, delay, size, name of the group, queue.
local function check_group(tie)
  local at = tie + 3
  local told = redis.pcall('HGET', key_at(tie + 1), 'v')
  if type(told) == 'table' then return told.err end
  if told and told ~= GROUP_V then return 'this group was written by another release of pyworkers' end
  local replies = {
    redis.pcall('LLEN', key_at(at)), redis.pcall('ZCARD', key_at(at + 1)), redis.pcall('SREM', key_at(at + 2), ''),
  }
  for _, reply in ipairs(replies) do
    if type(reply) == 'table' then return reply.err end
  end
end

local closed = 0 -- sets that this step has made: they are flushed in this order

-- The payload joins the group of the tie. The group of the right size becomes a set, which takes no more members: its
-- list gets the new set's name. Returns the error, if any; then nothing has joined.
local function join_group(tie, payload)
  local at = tie + 3
  local hash, list, groups = key_at(tie + 1), key_at(at), key_at(at + 1)
  local entry, new_set, class = arguments[at + 4], arguments[at + 5], arguments[at + 6]
  local failed = check_group(tie)
  if failed then return failed end
  local told = redis.pcall('HMGET', hash, 'first', 'own_grace', 'own_delay', 'own_size')
  if told.err then return told.err end
  local first, own_grace, own_delay, own_size = unpack(told)
  local grace, delay, size =
    settings_of(own_grace, own_delay, own_size, arguments[at + 7], arguments[at + 8], arguments[at + 9])
  local count = redis.call('LLEN', list) + 1
  local due = due_of(tonumber(first or now), tonumber(now), grace, delay, size, count)
  local reply = redis.pcall('SADD', key_at(at + 2), class)
  if type(reply) == 'table' then return reply.err end
  reply = redis.pcall('HSET', hash, 'v', GROUP_V, 'first', first or now, 'last', now, 'grace', arguments[at + 7],
    'delay', arguments[at + 8], 'size', arguments[at + 9])
  if type(reply) == 'table' then return reply.err end
  -- Before the member: a group that is due and has no members is harmless, one with members that is not due is not.
  reply = redis.pcall('ZADD', groups, text_of(due), entry)
  if type(reply) == 'table' then return reply.err end
  reply = redis.pcall('RPUSH', list, payload)
  if type(reply) == 'table' then return reply.err end
  -- The set is known before it has members, as in flush.lua.
  local known = size > 0 and count >= size
    and redis.pcall('ZADD', groups, text_of(now + closed / 1e6), entry .. ' ' .. new_set)
  if type(known) == 'number' and redis.pcall('RENAMENX', list, key_at(at + 3)) == 1 then
    closed = closed + 1
    forget_group(hash, groups, entry)
  end
end
