-- A slot is a limit, or one key of a limit. Its keys:
--   settings  a hash, one for all slots of the limit: `v`; `concurrent`, `rate` ('jobs seconds burst') and `holds` as
--             declared, each '' where there is none; `set_concurrent` and `set_rate` by people, who go before
--   places    a hash: `v`; `s:JID` for each place that is taken: 'identity since queue', where the identity is empty of a
--             job that waits for its run with its place, and the queue may be the line of another slot, into which the
--             job was moved; `tat`, the theoretical arrival time of the rate (GCRA); `b`, the block of code that has
--             asked first and still asks: 'name since until'
--   line      a list, the oldest entry at its end: a header (JSON with `v`, `queue`, `at`, `jid`), a line feed, the payload
--   due       a zset, one for all slots: each line with entries, by the time at which to look at it next
-- Every step that frees a place lets the next job of the line go. So a line has entries only while its slot is full. A
-- look is for what no step tells: the time of a rate, and owners that have died.
-- Limits and lines of another version are left alone.
-- The constants are told in limit.py.
local key_at, arguments, now, QUEUES, LIMIT_V, LOOK_S, SOON_S, LATE_S, BLOCK_S, LET_GO_MOST, UNREADABLE_MOST = ...
-- The life of the place of a job that a rate has let go, and that does not begin.
local LET_GO_LIFE_S = 86400

-- The arguments of a slot: the numbers of these keys: settings, places, line, due, names of the lines, schedule; the
-- name of the line; how many queues are known, and for each its name and the number of its key. Returns the slot, and
-- the place after its arguments.
local function slot_at(at)
  local slot = {
    settings = key_at(at), places = key_at(at + 1), line = key_at(at + 2), due = key_at(at + 3),
    lines = key_at(at + 4), schedule = key_at(at + 5), name = arguments[at + 6], queues = {},
  }
  local after = at + 8 + 2 * arguments[at + 7]
  for i = at + 8, after - 1, 2 do slot.queues[arguments[i]] = key_at(i + 1) end
  return slot, after
end

-- The error that a step would give that writes to the keys of a slot, because one of them has a wrong type.
local function slot_error(slot)
  local replies = {
    redis.pcall('HLEN', slot.settings), redis.pcall('HLEN', slot.places), redis.pcall('LLEN', slot.line),
    redis.pcall('ZCARD', slot.due), redis.pcall('SREM', slot.lines, ''), redis.pcall('ZCARD', slot.schedule),
  }
  for _, reply in ipairs(replies) do
    if type(reply) == 'table' then return reply.err end
  end
end

-- False where nobody has declared the limit.
local function read_settings(slot)
  local values = redis.call('HMGET', slot.settings, 'v', 'concurrent', 'rate', 'holds', 'set_concurrent', 'set_rate')
  if values[1] ~= LIMIT_V then return false end
  slot.declared = true
  slot.concurrent = tonumber(values[5] or values[2] or '')
  slot.counts = slot.concurrent ~= nil -- jobs that begin while people allow any number count when they do no more
  if slot.concurrent and slot.concurrent < 0 then slot.concurrent = nil end
  local jobs, seconds, burst = string.match(values[6] or values[3] or '', '^(%S+) (%S+) (%S+)$')
  if jobs then slot.interval, slot.burst = seconds / jobs, tonumber(burst) end
  slot.holds = values[4] == '1'
  return true
end

local function has_place(slot, jid)
  return redis.call('HEXISTS', slot.places, 's:' .. jid) == 1
end

-- How many places are taken.
local function taken(slot)
  local fields = redis.call('HLEN', slot.places)
  if fields == 0 then return 0 end
  local others = redis.call('HMGET', slot.places, 'tat', 'b')
  return fields - 1 - (others[1] and 1 or 0) - (others[2] and 1 or 0)
end

-- The block of code that has asked first and still asks: its name, since when, and until when it counts. It counts for
-- BLOCK_S at most: the clock may have been set back.
local function waiting_block(slot)
  local block = redis.call('HGET', slot.places, 'b')
  local name, since, till = string.match(block or '', '^(%S+) (%S+) (%S+)$')
  local left_s = till and till - now or 0
  if left_s > 0 and left_s <= BLOCK_S then return name, since, tonumber(till) end
end

-- A block of code that got no place keeps its turn before jobs that come into the line later.
local function note_block(slot, name)
  local other, since = waiting_block(slot)
  if other and other ~= name then return end
  -- Lua writes a time with four decimals by itself. Rounded up, it would be too far away to count.
  local till = string.format('%.6f', now + BLOCK_S)
  redis.call('HSET', slot.places, 'v', LIMIT_V, 'b', name .. ' ' .. (since or now) .. ' ' .. till)
end

-- The theoretical arrival time of the rate. One that the rate cannot make is from before the clock was set back, or the
-- rate made faster: it counts no more.
local function arrival(slot, none)
  local tat = tonumber(redis.call('HGET', slot.places, 'tat') or none)
  return tat > now + slot.burst * slot.interval + 0.001 and tonumber(now) or tat
end

-- Whether one more job may go. The second value: the time at which the rate allows the next one, if that is the cause.
local function has_room(slot)
  if slot.concurrent and taken(slot) >= slot.concurrent then return false end
  if not slot.interval then return true end
  local at = arrival(slot, 0) - (slot.burst - 1) * slot.interval
  if at > tonumber(now) then return false, at end
  return true
end

-- Takes the next place of the rate. `late`: the job has waited for it.
local function spend(slot, late)
  if not slot.interval then return end
  local tat = math.max(arrival(slot, now), late and now - LATE_S or tonumber(now)) + slot.interval
  redis.call('HSET', slot.places, 'v', LIMIT_V, 'tat', string.format('%.6f', tat))
end

-- A hash without places is needed until the time of its rate only. The places of a rate only are let go and not begun
-- yet. They bound nothing, and another program may have deleted the jobs.
local function tidy(slot)
  local places = taken(slot) > 0
  if places and slot.counts ~= false then return redis.call('PERSIST', slot.places) end
  if places then
    local rate_s = slot.interval and slot.burst * slot.interval or 0
    return redis.call('EXPIRE', slot.places, math.ceil(rate_s) + LET_GO_LIFE_S)
  end
  local _, _, till = waiting_block(slot)
  local needed = math.max(tonumber(redis.call('HGET', slot.places, 'tat') or 0), till or 0)
  if needed <= now - LATE_S then return redis.call('DEL', slot.places) end
  redis.call('EXPIRE', slot.places, math.ceil(needed - now) + 1)
end

-- PERSIST first: where it is refused, nothing is done.
local function give_place(slot, jid, owner, queue)
  if slot.counts ~= false then redis.call('PERSIST', slot.places) end
  redis.call('HSET', slot.places, 'v', LIMIT_V, 's:' .. jid, owner .. ' ' .. now .. ' ' .. queue)
  if slot.counts == false then tidy(slot) end
end

-- The oldest entry of the line that this release can read, as {entry, jid, queue, payload, at}; and whether it is the
-- last.
local function oldest_of(slot)
  for at = 1, UNREADABLE_MOST do
    local entry = redis.call('LINDEX', slot.line, -at)
    if not entry then return end
    local stop = string.find(entry, '\n', 1, true)
    local read, header = pcall(cjson.decode, stop and string.sub(entry, 1, stop - 1) or '')
    if read and type(header) == 'table' and header.v == 1 and type(header.jid) == 'string'
      and type(header.queue) == 'string' then
      return {entry, header.jid, header.queue, string.sub(entry, stop + 1), tonumber(header.at)}, at == 1
    end
  end
end

-- Puts jobs at the consumer's end of their queue, the first one last. Where that is not possible they go into the
-- schedule, due now.
local function put_first(slot, queue, jobs)
  local key = slot.queues[queue]
  if key then
    local backwards = {}
    for i = #jobs, 1, -1 do backwards[#backwards + 1] = jobs[i] end
    redis.pcall('SADD', QUEUES, queue)
    if type(redis.pcall('RPUSH', key, unpack(backwards))) == 'number' then return end
  end
  for _, job in ipairs(jobs) do redis.call('ZADD', slot.schedule, now, job) end
end

-- Notes when to look at the line next.
local function look_later(slot, at)
  if redis.call('LLEN', slot.line) == 0 then
    redis.call('ZREM', slot.due, slot.name)
    redis.call('SREM', slot.lines, slot.name)
  else
    redis.call('ZADD', slot.due, at or now + LOOK_S, slot.name)
  end
end

-- Fails where the access rules do not allow what follows the removal of a job from the line: the job would be lost.
-- LTRIM first: a server that is out of memory allows the others after it.
local function check_line(slot)
  redis.call('LTRIM', slot.line, '0', '-1')
  redis.call('HSET', slot.places, 'v', LIMIT_V)
  if slot.counts == false then
    redis.call('EXPIRE', slot.places, LET_GO_LIFE_S)
  else
    redis.call('PERSIST', slot.places)
  end
  redis.call('ZADD', slot.due, 'XX', '0', '')
  redis.call('ZCARD', slot.schedule) -- where a job goes that its queue does not take
end

-- Takes the oldest entry that can be read out of the line. (To try LREM first would cost a walk through all entries.)
local function take_out(slot, entry, is_last)
  if is_last then redis.call('LTRIM', slot.line, '0', '-2') else redis.call('LREM', slot.line, '-1', entry) end
end

-- Lets as many jobs of the line go as there is room for, at most so many. Each takes its place with it. Returns how many.
local function let_go(slot, most)
  if redis.call('LLEN', slot.line) == 0 then return 0 end
  local count, queues, at = 0, {}, now
  while count < most do
    local room, next_at = has_room(slot)
    at = next_at
    if not room then break end
    local oldest, is_last = oldest_of(slot)
    if not oldest then break end
    at = now
    local entry, jid, queue, payload, since = unpack(oldest)
    local block, asked, till = waiting_block(slot)
    if block and tonumber(asked) < (since or 0) then
      at = till
      break
    end
    -- The next look declares its queue. Nobody looks at lines of undeclared limits.
    if not slot.queues[queue] and slot.declared then
      if slot.looks and count == 0 then at = nil end -- the look could not read the entry
      break
    end
    if count == 0 then check_line(slot) end
    local done, failed = pcall(take_out, slot, entry, is_last)
    if not done and count == 0 then error(failed, 0) end
    if not done then break end -- jobs that have left the line must come to their queues
    give_place(slot, jid, '', queue)
    spend(slot, true)
    queues[queue] = queues[queue] or {}
    table.insert(queues[queue], payload)
    count = count + 1
  end
  for queue, jobs in pairs(queues) do put_first(slot, queue, jobs) end
  look_later(slot, at)
  return count
end

-- Ends the place of a job, and lets the next one go. An undeclared limit allows as many jobs as there were places.
local function free_place(slot, jid)
  if redis.call('HDEL', slot.places, 's:' .. jid) == 0 then return end
  local waiting = redis.pcall('LLEN', slot.line)
  if type(waiting) == 'number' and waiting > 0 then
    if not read_settings(slot) then slot.concurrent = taken(slot) + 1 end
    let_go(slot, LET_GO_MOST)
  end
  if taken(slot) == 0 then tidy(slot) end
end

-- The job keeps its place while it waits for its next run.
local function hold_place(slot, jid)
  local place = redis.call('HGET', slot.places, 's:' .. jid)
  if place then give_place(slot, jid, '', string.match(place, '^%S* %S+ (.*)$') or '') end
end

-- Puts an entry into the line. The line is known before: one without entries is harmless. Returns the error, if any; then
-- the entry is not in the line.
local function join(slot, entry)
  local reply = redis.pcall('SADD', slot.lines, slot.name)
  if type(reply) == 'number' then reply = redis.pcall('ZADD', slot.due, 'NX', now + SOON_S, slot.name) end
  if type(reply) == 'number' then reply = redis.pcall('LPUSH', slot.line, entry) end
  if type(reply) == 'table' then return reply.err end
  pcall(let_go, slot, LET_GO_MOST) -- else a look does it
  if reply == 1 and slot.concurrent then redis.pcall('ZADD', slot.due, 'XX', 'LT', now + SOON_S, slot.name) end
end

return {
  at = slot_at, error = slot_error, read_settings = read_settings, has_place = has_place, taken = taken,
  waiting_block = waiting_block, note_block = note_block, has_room = has_room, spend = spend, tidy = tidy,
  give_place = give_place, look_later = look_later, let_go = let_go, free_place = free_place, hold_place = hold_place,
  join = join,
}
