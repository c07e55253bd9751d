-- Settles a slot of a schedule, or a demand of people: pushes the job, if there is one, and writes where the schedule is
-- and its history.
-- KEYS: queues, source, record of the schedule, history, a key that never exists, then queues, the schedule set, and the keys of ties of the push
-- ARGV: order of the generation, number of the state, slot, word, jid, first missed slot or '', 1: people have asked,
--   1: skips when the lock is held, how many entries the history has, life, then the push if there is one
-- Answer: {'done', word}, {'changed'}, {'early'} or {'held', then the holder as {jid, queue, at, due}}
-- For fragments: QUEUES, FIXED, TRIAL, arguments
local QUEUES, FIXED, TRIAL, arguments = KEYS[1], 5, KEYS[5], ARGV
local now, push, check_push, checks = ...
local SOURCE, RECORD, HISTORY = KEYS[2], KEYS[3], KEYS[4]
local V, PUSH = '1', 11
local slot, word, jid, missed_from, most, life = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[9], ARGV[10]
local asked, skips = ARGV[7] == '1', ARGV[8] == '1'

local function is_as_it_was()
  return (redis.call('HGET', SOURCE, 'order') or '') == ARGV[1] and redis.call('HGET', RECORD, 'v') == V
    and redis.call('HGET', RECORD, 'n') == ARGV[2] and (asked or not redis.call('HGET', RECORD, 'paused'))
end

local function number_of(field)
  return tonumber(redis.call('HGET', RECORD, field)) or 0
end

if not is_as_it_was() then return {'changed'} end
if tonumber(slot) > tonumber(now) then return {'early'} end
if #ARGV >= PUSH then
  local failed = check_push(PUSH)
  if failed then return {err = failed} end
  local at = PUSH + 5
  while not skips and at <= #ARGV do
    local tie, other, unread = checks[ARGV[at]], nil, nil
    if tie.holder then other, unread = tie.holder(at) end
    if unread then return {err = unread} end
    if other then return {'held', unpack(other)} end
    at = at + 3 + ARGV[at + 2]
  end
end

-- First, so that a job is not pushed twice where this is refused. A schedule has no `last` before its first firing. A
-- refused push leaves '0' then: no reader takes that for a slot. An empty text would be a damaged record.
local last, moved = redis.call('HGET', RECORD, 'last') or '0', asked and {'asked'} or {'last'}
moved[2] = asked and string.format('%d', math.max(0, number_of('asked') - 1)) or slot
local reply = redis.pcall('HSET', RECORD, 'n', string.format('%d', ARGV[2] + 1), unpack(moved))
if type(reply) == 'table' then return reply end
if #ARGV >= PUSH then
  local result, failed = push(PUSH, asked and 'asked' or 'periodic')
  if failed then
    redis.pcall('HSET', RECORD, 'n', ARGV[2], moved[1], asked and string.format('%d', number_of('asked') + 1) or last)
    return {err = failed}
  end
  if result == 0 then word = 'skipped' end
  if type(result) == 'table' and result[1] ~= 'rescheduled' then
    word, jid = result[1] == 'replaced' and 'replaced' or 'skipped', result[2]
  end
end
local count = (word == 'fired' or word == 'asked') and 'fired' or word == 'missed' and 'missed' or 'skipped'
redis.pcall('HSET', RECORD, count, string.format('%d', number_of(count) + 1))
redis.pcall('LPUSH', HISTORY, table.concat({word, slot, now, missed_from, jid}, ' '))
redis.pcall('LTRIM', HISTORY, 0, most - 1)
redis.pcall('EXPIRE', HISTORY, life)
return {'done', word}
