-- Settles deliveries of one queue: each item is taken off its in-progress list and put into its new place, or stays.
-- An item that is not in its in-progress list was recovered by another process, and is left alone.
-- KEYS: queue, retry, dead, queues, processed, failed, processed today, failed today, receipt, schedule, a key that
--       never exists, then in-progress lists
-- ARGV: batch number, queue name, dead limit, dead age, life of the day's counters, life of the receipt,
--       end of the list to look from: 1 the newest, -1 the oldest,
--       then for each row of items that are only removed: number of their list, how many, raw payloads
--       and for each other item: its step, number of its list, raw payload, score, new payload
-- Answer: for each item that was not settled its number, and 0 when it was not in its list, or the text of the error
--       for which it stays there
local QUEUE, RETRY, DEAD, QUEUES, RECEIPT, SCHEDULE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[9], KEYS[10]
local NOTHING, LISTS = KEYS[11], 11
local number, name, dead_limit, dead_age, day_life, receipt_life, from =
  ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])

-- The receipt has the number of this batch: the batch is done, its reply was lost, and the settler sends it again. To
-- do it again could remove an item of the same bytes that was fetched later.
local last = redis.call('GET', RECEIPT)
if last then
  local head = number .. ':'
  if string.sub(last, 1, #head) == head then return cmsgpack.unpack(string.sub(last, #head + 1)) end
end

-- A write that changes nothing: a server that cannot write now (a replica after a failover) fails here, for the whole
-- batch. Below, the script would return an error for each item, and the connection to that server would be kept.
redis.call('EXPIRE', RECEIPT, receipt_life)

-- An item is taken off its list before it is written to its new place. So the script first tries whether the access
-- rules allow the commands for the new place and for the way back into the list: it calls them on a key that is
-- deleted again. One try is enough for all items with the same step. Items that are only removed need none.
local function find_refusal(what)
  local cleaned = redis.pcall('LREM', NOTHING, '0', '')
  if type(cleaned) == 'table' then return cleaned.err end
  local to_set = what ~= 'front' and what ~= 'back'
  local replies = {
    redis.pcall('SET', NOTHING, '', 'XX'), -- the receipt: without it a repeated batch may remove an equal item
    to_set and redis.pcall('ZADD', NOTHING, 'XX', '0', ''),
    redis.pcall('RPUSH', NOTHING, ''), -- for 'front', and for the way back into the list
    what == 'back' and redis.pcall('LPUSH', NOTHING, ''),
  }
  redis.call('LREM', NOTHING, '0', '')
  for _, reply in ipairs(replies) do
    if type(reply) == 'table' and reply.err then return reply.err end
  end
  return false
end

local refusals = {}
local function refusal(what)
  if what == 'remove' or what == 'fail' then return false end
  if refusals[what] == nil then refusals[what] = find_refusal(what) end
  return refusals[what]
end

local function place(what, raw, score, payload)
  if what == 'retry' then return redis.pcall('ZADD', RETRY, score, payload), RETRY end
  if what == 'schedule' then return redis.pcall('ZADD', SCHEDULE, score, payload), SCHEDULE end
  if what == 'dead' then return redis.pcall('ZADD', DEAD, now, payload), DEAD end
  redis.pcall('SADD', QUEUES, name)
  if payload == '' then payload = raw end
  return redis.pcall(what == 'front' and 'RPUSH' or 'LPUSH', QUEUE, payload), QUEUE
end

local function end_one(list, raw, what, score, payload)
  local refused = refusal(what)
  if refused then return refused end
  local removed = redis.pcall('LREM', list, from, raw)
  if type(removed) == 'table' then return removed.err .. ' (key ' .. list .. ')' end
  if removed == 0 or what == 'remove' or what == 'fail' then return removed end
  local reply, key = place(what, raw, score, payload)
  if type(reply) == 'table' and reply.err then
    redis.call('RPUSH', list, raw)
    return reply.err .. ' (key ' .. key .. ')'
  end
  return removed
end

local answer, at, processed, failed, buried = {}, 0, 0, 0, false
local function note(what, result)
  at = at + 1
  if result ~= 1 then
    answer[#answer + 1], answer[#answer + 2] = at, result
  elseif what ~= 'front' and what ~= 'back' and what ~= 'schedule' then
    processed = processed + 1
    if what ~= 'remove' then failed = failed + 1 end
    if what == 'dead' then buried = true end
  end
end

local i, arguments = 8, ARGV
while i <= #arguments do
  local what = arguments[i]
  if tonumber(what) then
    local list, last = KEYS[LISTS + what], i + 1 + arguments[i + 1]
    for j = i + 2, last do note('remove', end_one(list, arguments[j], 'remove')) end
    i = last + 1
  else
    local list = KEYS[LISTS + arguments[i + 1]]
    note(what, end_one(list, arguments[i + 2], what, arguments[i + 3], arguments[i + 4]))
    i = i + 5
  end
end

-- From here on an error must not end the script, because the items are settled. So all calls are pcall: a counter that
-- cannot be written loses its count.
if buried then
  redis.pcall('ZREMRANGEBYSCORE', DEAD, '-inf', now - dead_age)
  redis.pcall('ZREMRANGEBYRANK', DEAD, 0, -dead_limit - 1)
end
local function count(key, day_key, amount)
  if amount == 0 then return end
  redis.pcall('INCRBY', key, amount)
  redis.pcall('INCRBY', day_key, amount)
  redis.pcall('EXPIRE', day_key, day_life)
end
count(KEYS[5], KEYS[7], processed)
count(KEYS[6], KEYS[8], failed)
redis.pcall('SET', RECEIPT, number .. ':' .. cmsgpack.pack(answer), 'EX', receipt_life)
return answer
