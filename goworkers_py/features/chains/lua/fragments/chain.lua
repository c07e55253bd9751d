-- The record of a chain is a hash:
--   v, at, links, retain      the version, when it was pushed, how many links it has, how long it is kept after its end
--   link, parts, open         the number of the link that is at work, how many parts it has, and how many have not ended
--                             well
--   state                     running, stopped, cancelled or ended; ended: when
--   since                     when that link was pushed
--   why, jid, class, error    how the job has ended that has stopped the chain, and which it was
--   link:N:PART               a part of the link that is at work, or is still to come: its payload without `enqueued_at`,
--                             with the byte 1 in the places for the result of the link before; a line end; its queue
--   parts:N                   how many parts a link has that is still to come; missing: one
--   result:PART               the result of a part of the link that is at work, if it has several
--   ms                        `enqueued_at` is written in milliseconds
-- A chain of another version is left alone.
local key_at, arguments, now, QUEUES, batch, KEPT_S, CHAIN_V = ...
local CHAIN_FIELDS = {'v', 'link', 'links', 'parts', 'open', 'retain', 'state', 'ms'}

-- The place of a chain in the arguments: its name, the numbers of its record, of the tombstones, their version, the
-- schedule and the set of chains; how many queues, and the name and the number of each; the place of the batch that its
-- jobs join, see batch.lua, or 0. The second result is where the place ends.
local function chain_place(at)
  local place = {cid = arguments[at], key = key_at(at + 1), queues = {}}
  place.tombstones, place.version = key_at(at + 2), key_at(at + 3)
  place.schedule, place.chains = key_at(at + 4), key_at(at + 5)
  at = at + 6
  for _ = 1, arguments[at] do
    place.queues[arguments[at + 1]] = key_at(at + 2)
    at = at + 2
  end
  at = at + 1
  if arguments[at] == '0' then return place, at end
  local joined, last = batch.joined_place(at)
  place.batch, place.joins = joined, at
  return place, last
end

local function read_chain(key)
  local values = redis.pcall('HMGET', key, unpack(CHAIN_FIELDS))
  if values.err or values[1] ~= CHAIN_V then return end
  local chain = {state = values[7], ms = values[8]}
  for i = 2, 6 do chain[CHAIN_FIELDS[i]] = tonumber(values[i] or 0) or 0 end
  return chain
end

local function keep_chain(place, life)
  redis.pcall('EXPIRE', place.key, life)
  redis.pcall('ZADD', place.chains, now + life, place.cid)
end

local function stop_chain(place, why, jid, class, error)
  redis.pcall('HSET', place.key, 'state', 'stopped', 'why', why, 'jid', jid, 'class', class, 'error', error)
  keep_chain(place, KEPT_S)
end

-- A job that its queue does not take goes into the schedule. Before a link begins, this tries that, by a call that changes
-- nothing. Returns the error, if any.
local function push_refusal(place)
  local reply = redis.pcall('ZADD', place.schedule, 'XX', '0', '')
  return type(reply) == 'table' and reply.err .. ' (key ' .. place.schedule .. ')'
end

local function push_part(place, text, result, stamp)
  local cut = string.find(text, '\n', 1, true)
  local queue, payload, reply = string.sub(text, cut + 1), string.sub(text, 1, cut - 2), nil
  payload = string.gsub(payload, '\1', function() return result end) .. ',"enqueued_at":' .. stamp .. '}'
  if place.queues[queue] then
    redis.pcall('SADD', QUEUES, queue)
    reply = redis.pcall('LPUSH', place.queues[queue], payload)
  end
  if type(reply) ~= 'number' then redis.call('ZADD', place.schedule, now, payload) end -- else the job would be nowhere
end

-- The fields of the parts of a link.
local function part_names(number, parts)
  local names = {}
  for part = 1, parts do names[part] = 'link:' .. number .. ':' .. part end
  return names
end

-- Pushes the link that comes next. Returns false when its batch was cancelled. Where the batch has ended, because a link
-- was dead and is retried now, the chain goes on without it.
local function begin_link(place, chain, result)
  local key, number = place.key, chain.link + 1
  local parts = tonumber(redis.pcall('HGET', key, 'parts:' .. number) or 1)
  if place.batch then
    local batch_key = place.batch[1].key
    if batch.is_stopped(place.batch, 1) then return false end
    if batch.may_join(batch_key, place.joins) or batch.takes_jobs(batch_key) then redis.pcall('HINCRBY', batch_key, 'total', parts) end
  end
  local stamp = chain.ms and string.format('%.0f', now * 1000) or now
  local texts = redis.pcall('HMGET', key, unpack(part_names(number, parts)))
  for _, text in ipairs(texts) do push_part(place, text, result, stamp) end
  redis.pcall('HSET', key, 'link', number, 'parts', parts, 'open', parts, 'state', 'running', 'since', now)
  redis.pcall('HDEL', key, 'parts:' .. number, 'why', 'jid', 'class', 'error', unpack(part_names(chain.link, chain.parts)))
  keep_chain(place, KEPT_S)
  return true
end

-- The list of the results of all parts.
local function results_of(key, parts)
  local names = {}
  for part = 1, parts do names[part] = 'result:' .. part end
  local results = '[' .. table.concat(redis.pcall('HMGET', key, unpack(names)), ',') .. ']'
  redis.pcall('HDEL', key, unpack(names))
  return results
end

-- One more job of a cancelled chain has ended: the last one removes the tombstone.
local function meet_chain(place)
  if redis.pcall('HINCRBY', place.key, 'open', '-1') ~= 0 then return end
  if redis.pcall('HDEL', place.tombstones, place.cid) == 1 then
    redis.pcall('SET', place.version, now .. ' ' .. place.cid) -- see tombstone.lua
  end
end

-- A job has ended that is this part of this link; `why` is empty when it has ended well.
local function end_link(place, number, part, why, jid, class, error, result)
  local key, chain = place.key, read_chain(place.key)
  if not chain or chain.link ~= number or chain.state == 'ended' then return end
  if chain.state == 'cancelled' then return meet_chain(place) end
  if why ~= '' then return stop_chain(place, why, jid, class, error) end
  if chain.parts > 1 and redis.pcall('HSETNX', key, 'result:' .. part, result) ~= 1 then return end
  if redis.pcall('HINCRBY', key, 'open', '-1') ~= 0 then return end
  if chain.parts > 1 then result = results_of(key, chain.parts) end
  if number < chain.links then
    if not begin_link(place, chain, result) then
      redis.pcall('HSET', key, 'open', '1')
      stop_chain(place, 'batch', jid, class, '')
    end
    return
  end
  redis.pcall('HSET', key, 'state', 'ended', 'ended', now)
  redis.pcall('HDEL', key, 'why', 'jid', 'class', 'error', unpack(part_names(number, chain.parts)))
  keep_chain(place, math.max(chain.retain, 1))
end

-- The values of the effect: the part, how it has ended, jid, class, error, result, and the place of the chain.
local function apply(_, number, first)
  end_link(chain_place(first + 6), tonumber(number), unpack(arguments, first, first + 5))
end

local function refusal(key)
  return batch.count_refusal(key, 'open', CHAIN_V)
end

-- The count of the batch that the next link joins is tried by the effect of the job's own end in it.
local function link_refusal(key, number, first)
  local next_part = 'link:' .. number + 1 .. ':1'
  local goes_on = arguments[first + 1] == '' and redis.pcall('HEXISTS', key, next_part) == 1
  return refusal(key) or (goes_on and push_refusal(chain_place(first + 6)))
end

return {
  V = CHAIN_V, place = chain_place, read = read_chain, keep = keep_chain, push_refusal = push_refusal,
  begin_link = begin_link, link = {apply = apply, refusal = link_refusal},
}
