-- The effects of a job that aggregates the members of a set, see group.lua.
local key_at, arguments, group, type_error, TRIAL = ...

-- The error that it would give to rename a set, if there is a new name for it.
local function rename_refusal(at)
  if arguments[at] == '0' then return false end
  local reply = redis.pcall('RENAMENX', TRIAL, key_at(at))
  return not string.find(reply.err, 'no such key') and reply.err
end

local function refuse_set(set, _, first, last, effects)
  local reply = redis.pcall('EXISTS', set)
  if type(reply) ~= 'table' then reply = redis.pcall('ZREM', key_at(first), '') end
  return type(reply) == 'table' and reply.err or rename_refusal(first + 3) or effects.refusal(first + 5, last)
end

-- The values: numbers of the class's groups and of the registry of classes, the class, the number of the set in which the
-- members go on (0: they are deleted) and its entry, then effects.
local function end_set(set, entry, first, last, effects)
  local groups, there = key_at(first), redis.pcall('EXISTS', set)
  if type(there) == 'table' then return there.err end
  local failed = there == 1 and effects.apply(first + 5, last)
  if failed then return failed end
  if there == 1 and arguments[first + 3] ~= '0' then
    redis.pcall('ZADD', groups, group.INF, arguments[first + 4])
    redis.pcall('RENAMENX', set, key_at(first + 3))
  elseif there == 1 and type(redis.pcall('UNLINK', set)) == 'table' then
    redis.pcall('DEL', set)
  end
  redis.pcall('ZREM', groups, entry)
  group.forget_class(key_at(first + 1), groups, arguments[first + 2])
end

local function refuse_member(key, _, first, last, effects)
  return type_error('LLEN', key) or effects.refusal(first, last)
end

-- The option is the payload of the member. The values are effects.
local function end_member(set, payload, first, last, effects)
  if redis.pcall('LREM', set, '1', payload) == 1 then return effects.apply(first, last) end
end

return {
  endset = {refusal = refuse_set, apply = end_set}, member = {refusal = refuse_member, apply = end_member},
}
