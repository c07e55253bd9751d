-- Deletes entries of a queue, or moves them into another one, by their exact bytes, near the places where the caller
-- has just read them. An LREM for each entry would walk through the whole queue; so LSET replaces them by marks, and one
-- LREM removes all marks.
--
-- KEYS: queue, a key that never exists, queues, the queue to which the entries go (or any: they are deleted), then keys of
--       effects
-- ARGV: first place to look at, last place (below 0: from the other end, as in LRANGE), a mark that is no job's
--       payload, the name of the queue to which the entries go ('': they are deleted), then for each entry: the entry, its
--       payload in the other queue, how many arguments its effects have, and these, see effects.lua
-- Answer: for each entry 1: deleted or moved, 0: not found near its place; or an error. An effect may be refused after all:
--       its entry went back to the beginning of the queue, and the others are gone.
local NOTHING, QUEUES, GOAL, SIZE = KEYS[2], KEYS[3], KEYS[4], 3
-- For fragments: FIXED, TRIAL, OUTBOXES, arguments
local FIXED, TRIAL, OUTBOXES, arguments = 4, NOTHING, nil, ARGV
local effects, applied = ...

local first, mark, goal = tonumber(ARGV[1]), ARGV[3], ARGV[4]
local wanted, places_of, moved, gone = {}, {}, {}, {}
-- Where the access rules do not allow LREM, or RPUSH for the way back, the script fails here, before it marks anything. And
-- a server that is out of memory lets a script go on that has called a write command before. LSET finds no such key.
redis.call('LREM', NOTHING, '1', mark)
redis.call('RPUSH', NOTHING, '')
redis.call('LREM', NOTHING, '0', '')
local refused = redis.pcall('LSET', NOTHING, 0, mark).err
if not string.find(refused, 'no such key', 1, true) then return {err = refused} end
-- The list may have become shorter since its places were read. LRANGE begins at its beginning then, and so must the
-- places. `0 -`, because the sign of -0 would be sent too, which LRANGE refuses.
if first < 0 then first = math.max(first, 0 - redis.call('LLEN', KEYS[1])) end
local entries, i = {}, 5
while i <= #ARGV do
  local entry = ARGV[i]
  entries[#entries + 1] = entry
  wanted[entry] = (wanted[entry] or 0) + 1
  moved[entry] = ARGV[i + 1]
  places_of[entry] = {i + SIZE, i + SIZE - 1 + ARGV[i + 2]}
  local failed = effects.refusal(unpack(places_of[entry]))
  if failed then return {err = failed} end
  i = i + SIZE + ARGV[i + 2]
end

local places, found, there = {}, {}, {}
for offset, raw in ipairs(redis.call('LRANGE', KEYS[1], first, ARGV[2])) do
  if (wanted[raw] or 0) > 0 then
    wanted[raw], gone[raw] = wanted[raw] - 1, (gone[raw] or 0) + 1
    places[#places + 1], found[#found + 1] = first + offset - 1, raw
  end
end
-- Before anything is taken out: where this is refused, the script ends here.
if goal ~= '' then
  for i = #found, 1, -1 do there[#there + 1] = moved[found[i]] end -- those that came first are pushed first
  for i = 1, #there, 1000 do redis.call('LPUSH', GOAL, unpack(there, i, math.min(i + 999, #there))) end
  if #there > 0 then redis.pcall('SADD', QUEUES, goal) end
end
for i in ipairs(found) do redis.call('LSET', KEYS[1], places[i], mark) end
-- From the end of the list to which the places are nearer: LREM looks at each entry until it has found all.
if #found > 0 then redis.call('LREM', KEYS[1], first < 0 and -#found or #found, mark) end
-- Last: an effect may push to this queue, which moves its places.
local refused_effect
for _, raw in ipairs(found) do
  local failed = applied(unpack(places_of[raw]))
  if failed then
    if goal ~= '' then redis.call('LREM', GOAL, '1', moved[raw]) end
    redis.call('RPUSH', KEYS[1], raw)
    refused_effect = failed
  end
end
effects.finish()
if refused_effect then return {err = refused_effect} end
local answer = {}
for _, entry in ipairs(entries) do
  local left = (gone[entry] or 0) > 0
  if left then gone[entry] = gone[entry] - 1 end
  answer[#answer + 1] = left and 1 or 0
end
return answer
