-- An open group is a list of its members' payloads and a hash:
--   v, first, last            the version, when its first and its last member joined
--   grace, delay, size        the settings of the last push, in seconds; 0: without this limit
--   own_grace, own_delay, own_size   those that people have set for this group: they go before
-- The groups of a class are in a set, each by the time at which it is due: `entry_of` of redis_part.py, and for a set of
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
    redis.pcall('HDEL', hash, 'v') -- the last field, and with it the hash; not DEL, which may be denied where HDEL is not
    redis.pcall('ZREM', groups, entry)
  else
    redis.pcall('ZADD', groups, INF, entry)
  end
end

local function forget_class(registry, groups, class)
  if redis.pcall('ZCARD', groups) == 0 then redis.pcall('SREM', registry, class) end
end

return {
  V = GROUP_V, INF = INF, text_of = text_of, due_of = due_of, settings_of = settings_of, forget = forget_group,
  forget_class = forget_class,
}
