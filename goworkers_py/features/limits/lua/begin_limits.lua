-- A job begins that needs a place in each of some slots. It takes all of them, or is moved from its in-progress list
-- into the line of the first slot in the order that is full. There is no moment between: a place that is freed after
-- this step finds the job in the line.
-- KEYS: receipt, queues, in-progress list (of a block: a key that never exists), a key that never exists, then keys of
--       slots and of effects, in any order
-- ARGV: number and its life, see late.lua, jid, identity, queue, the raw payload ('': a block of code, which does not
--       wait in a line), the entry in the line, how many slots, the slots, see limit.lua, then the effects of moving the
--       job, see effects.lua
-- Answer: {'run'}, {'waits', name of the line}, {'lost'}: the job was not in its list, {'full'} of a block,
--         {'undeclared'}, or {'late', number}, see late.lua
local RECEIPT, QUEUES, LIST, NOTHING = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- For fragments: QUEUES, NOTHING, FIXED, TRIAL, OUTBOXES, arguments
local FIXED, TRIAL, OUTBOXES, arguments = 4, KEYS[4], nil, ARGV
local effects, applied, limit, late, trial, slot_check = ...
-- A server that is out of memory lets a script go on that has called a write command before. Without this LTRIM,
-- limited jobs could not begin on a full server.
redis.call('LTRIM', LIST, '0', '-1')
local jid, identity, queue, raw, entry = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local is_late = late.answer(RECEIPT, ARGV[1], ARGV[2])
if is_late then return is_late end
if raw ~= '' and not late.is_in_progress(LIST, raw) then return {'lost'} end

local slots, first, full = {}, 9, nil

-- All jobs follow one order of slots: strict ones, whose lines wait for the job; then those of one key, because a job
-- that waits for its key must not hold a place that jobs of other keys need; then the others. Each by name.
local function is_before(one, other)
  if slots[one].holds ~= slots[other].holds then return slots[one].holds end
  if not slots[one].holds and slots[one].keyed ~= slots[other].keyed then return slots[one].keyed end
  return one < other
end

for i = 1, ARGV[8] do
  local slot
  slot, first = limit.at(first)
  slots[i] = slot
  if not limit.read_settings(slot) then return {'undeclared'} end
  slot.has, slot.keyed = limit.has_place(slot, jid), string.find(slot.name, '^limit:[^:]*:') ~= nil
  if not slot.has and not (full and is_before(full, i)) then
    local room = limit.has_room(slot)
    -- A block is in no line. A place that it may take is free because its turn has come.
    local block = limit.waiting_block(slot)
    if not room or (block and block ~= jid) or (raw ~= '' and redis.call('LLEN', slot.line) > 0) then full = i end
  end
end

if not full then
  for _, slot in ipairs(slots) do
    local failed = (slot.interval or not slot.counts) and trial.refusal('HDEL HSET HDEL EXPIRE PERSIST')
    if failed then return {err = failed} end
  end
  for _, slot in ipairs(slots) do
    if not slot.has then limit.spend(slot, false) end
    if raw == '' and limit.waiting_block(slot) == jid then redis.call('HDEL', slot.places, 'b') end
    if slot.counts then
      limit.give_place(slot, jid, identity, queue)
    elseif slot.has then
      redis.call('HDEL', slot.places, 's:' .. jid) -- it was let go by the rate, and needs no place any more
    end
    if slot.interval then limit.tidy(slot) end
  end
  return {'run'}
end
if raw == '' then
  limit.note_block(slots[1], jid)
  return {'full'}
end

local failed = effects.refusal(first, #ARGV) or trial.refusal(slot_check.tries)
  or trial.refusal('ZADD LREM RPUSH LREM DEL')
for i, slot in ipairs(slots) do
  if i == full or slot.has then failed = failed or limit.error(slot) end
end
if failed then return {err = failed} end
redis.call('LREM', LIST, '-1', raw)
failed = applied(first, #ARGV) or limit.join(slots[full], entry)
if failed then
  redis.call('RPUSH', LIST, raw)
  return {err = failed}
end
-- From here on the job is in the line, so an error must not end the step. A look mends the line of a place.
-- The job gives up its other places, but for those before this slot in the order. So no two jobs wait for each other.
for i, slot in ipairs(slots) do
  if slot.has and is_before(i, full) then
    pcall(limit.give_place, slot, jid, '', slots[full].name)
  elseif slot.has and slot.counts then
    pcall(limit.free_place, slot, jid)
  end
end
return {'waits', slots[full].name}
