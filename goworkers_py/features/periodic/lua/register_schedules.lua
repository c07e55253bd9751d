-- Registers the schedules of a process, and answers their states.
-- KEYS: names of all schedules, the source, then for each schedule its record and its history
-- ARGV: source, generation, its order, seconds: stale, forgotten, life, step back; then for each schedule its name,
--   digest, rule and text
-- Answer: the newer generation alone, or now and, for each schedule, {number, 1: in force, since, 1: paused, asked,
--   override}. The number is 0 for a record of another version and for a damaged one, which are left alone.
local now = ...
local FIXED, SIZE, V = 7, 4, '1'
local NAMES, SOURCE = KEYS[1], KEYS[2]
local generation, order = ARGV[2], ARGV[3]
local stale, forgotten, life, back = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], tonumber(ARGV[7])
-- A process registers more often than this is written.
local SEEN_S = 15

-- Byte by byte: Lua's own order depends on the server's locale.
local function is_before(one, other)
  for at = 1, math.min(#one, #other) do
    local a, b = one:byte(at), other:byte(at)
    if a ~= b then return a < b end
  end
  return #one < #other
end

local function age(seen)
  return tonumber(now) - (tonumber(seen) or 0)
end

local function prolong(key)
  redis.call('EXPIRE', key, life)
end

local v = redis.call('HGET', SOURCE, 'v')
local known = redis.call('HGET', SOURCE, 'order') or ''
if v and (v ~= V or is_before(order, known)) then return {redis.call('HGET', SOURCE, 'generation') or ''} end
if not v or known ~= order or age(redis.call('HGET', SOURCE, 'seen')) > SEEN_S then
  redis.call('HSET', SOURCE, 'v', V, 'generation', generation, 'order', order, 'seen', now)
  redis.call('EXPIRE', SOURCE, forgotten)
end

-- Returns nil for a key of another type.
local function read(key)
  local flat, record = redis.pcall('HGETALL', key), {}
  if flat.err then return nil end
  for at = 1, #flat, 2 do record[flat[at]] = flat[at + 1] end
  -- Release 0.4.0 left this when the first firing was refused.
  if record.last == '' then record.last = nil end
  return record
end

-- Release 0.4.0 left nothing but this when the registration of a new schedule was refused.
local function is_begun_only(record)
  for field in pairs(record) do
    if field ~= 'v' and not string.match(field, '^seen:') and not string.match(field, '^first:') then return false end
  end
  return record.v == V
end

-- Texts of this schedule that no process has registered for long are new ones, when they come again.
local function forget_old(key, record)
  for field, value in pairs(record) do
    local digest = string.match(field, '^seen:(.*)$')
    if digest and age(value) > forgotten then
      redis.call('HDEL', key, field, 'first:' .. digest)
      record[field], record['first:' .. digest] = nil, nil
    end
  end
end

-- Whether this text comes into force instead of the one that is.
local function goes_before(record, digest)
  if record.order ~= order then return true end
  if age(record['seen:' .. record.digest]) > stale then return true end
  local first, of_other = record['first:' .. digest], record['first:' .. record.digest]
  return (tonumber(first or now) or 0) > (tonumber(of_other) or 0)
end

local function since_of(record)
  local last, anchor = tonumber(record.last) or 0, tonumber(record.anchor) or 0
  return last > anchor and record.last or record.anchor or record.last
end

-- One record must not stop the other schedules of the process.
local function is_damaged(record)
  local last, anchor = tonumber(record.last or 0), tonumber(record.anchor or 0)
  return not (tonumber(record.n) and last and anchor and (record.last or record.anchor))
end

local function register(key, history, name, digest, rule, text)
  local record = read(key)
  if record and is_begun_only(record) then record = {} end
  if not record or (record.v and (record.v ~= V or not record.digest or is_damaged(record))) then
    return {0, 0, '0', 0, 0, ''}
  end
  local seen, first = 'seen:' .. digest, 'first:' .. digest
  if record.digest ~= digest then forget_old(key, record) end
  local comes = not record.v or (record.digest ~= digest and goes_before(record, digest))
  local is_old = age(record[seen]) > SEEN_S
  local changes = {}
  local function change(field, value)
    changes[#changes + 1], changes[#changes + 2] = field, value
  end
  if is_old then
    change('v', V)
    change(seen, now)
    change(first, record[first] or now)
  end
  if comes then
    change('n', string.format('%d', (tonumber(record.n) or 0) + 1))
    change('digest', digest)
    change('rule', rule)
    change('text', text)
    -- Slots of another rule are not missed ones.
    if record.rule ~= rule then change('anchor', now) end
  end
  -- The name first, and the record in one command: whatever the server refuses, no half of a record stays.
  if is_old then redis.call('SADD', NAMES, ARGV[1] .. ':' .. name) end
  if #changes > 0 then redis.call('HSET', key, unpack(changes)) end
  if is_old then
    prolong(key)
    prolong(history)
  end
  if comes then record = read(key) end
  if record.digest == digest and record.order ~= order then redis.call('HSET', key, 'order', order) end
  if tonumber(since_of(record)) > tonumber(now) + back then -- the server's clock has gone back
    redis.call('HSET', key, 'last', now, 'anchor', now, 'n', string.format('%d', record.n + 1))
    record = read(key)
  end
  return {tonumber(record.n), record.digest == digest and 1 or 0, since_of(record), record.paused and 1 or 0,
    tonumber(record.asked) or 0, record.override or ''}
end

local answer = {now}
for number = 1, (#ARGV - FIXED) / SIZE do
  local at = FIXED + SIZE * (number - 1)
  answer[number + 1] = register(KEYS[1 + 2 * number], KEYS[2 + 2 * number], unpack(ARGV, at + 1, at + SIZE))
end
return answer
