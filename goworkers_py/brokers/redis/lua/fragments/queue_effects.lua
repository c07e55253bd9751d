-- The effects that write to queues, to outboxes and to the schedule, and that store values. 'post' is for a settlement
-- only, which has OUTBOXES. `refusal` says for a step of the script why it cannot be done.
local arguments, QUEUES, OUTBOXES, refusal, type_error, registry_error, AT_ONCE = ...

local function write_all(command, key, first, last)
  for from = first, last, AT_ONCE do
    local reply = redis.pcall(command, key, unpack(arguments, from, math.min(last, from + AT_ONCE - 1)))
    if type(reply) == 'table' and reply.err then return reply.err end
  end
end

local function refuse_push(key)
  return refusal('back') or type_error('LLEN', key)
end

local function push(key, queue, first, last)
  redis.pcall('SADD', QUEUES, queue)
  return write_all('LPUSH', key, first, last)
end

local function refuse_post(key)
  return refuse_push(key) or registry_error(OUTBOXES)
end

local function post(key, to, first, last)
  redis.call('SADD', OUTBOXES, to)
  return write_all('LPUSH', key, first, last)
end

local function refuse_later(key)
  return refusal('schedule') or type_error('ZCARD', key)
end

local function later(key, _, first, last)
  return write_all('ZADD', key, first, last)
end

local function refuse_value()
  return refusal('value')
end

local function value(key, life, first)
  local reply = redis.pcall('SET', key, arguments[first], 'EX', life)
  return type(reply) == 'table' and reply.err
end

return {
  push = {refusal = refuse_push, apply = push}, post = {refusal = refuse_post, apply = post},
  later = {refusal = refuse_later, apply = later}, value = {refusal = refuse_value, apply = value},
}
