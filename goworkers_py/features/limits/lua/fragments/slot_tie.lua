-- A job of a strict limit waits in the line while the slot is full, and takes a place with it else. The values: jid, the
-- header of an entry in the line, then a slot, see limit.lua. Only a push into a queue has it.
local arguments, limit, TIE_SIZE = ...

local tie_itself = {}

local function slot_of(at)
  return (limit.at(at + TIE_SIZE + 2))
end

-- A job that goes elsewhere takes no place.
local function decide(job)
  if job.step ~= 'back' then return 'dropped' end
end

-- A push takes a place for its job. False when the job has to wait in the line.
local function enter(slot, jid, queue)
  if not limit.read_settings(slot) then slot.concurrent, slot.holds = 1, true end -- only strict limits are entered by pushes
  if limit.has_place(slot, jid) then return true end
  if redis.call('LLEN', slot.line) > 0 or not limit.has_room(slot) then return false end
  limit.spend(slot, false)
  limit.give_place(slot, jid, '', queue)
  if slot.interval then limit.tidy(slot) end
  return true
end

local function undo(job, at)
  pcall(limit.free_place, job.slot, arguments[at + TIE_SIZE])
end

local function take(job, at)
  job.slot = slot_of(at)
  local done, entered = pcall(enter, job.slot, arguments[at + TIE_SIZE], job.name)
  if not done then
    undo(job, at)
    return type(entered) == 'table' and entered.err or entered
  end
  if not entered then job.goes_by, job.goes_at = tie_itself, at end
end

-- Into the line.
local function put(job, at)
  return limit.join(job.slot, arguments[at + TIE_SIZE + 1] .. job.payload)
end

tie_itself.decide, tie_itself.put = decide, put
tie_itself.take, tie_itself.undo = take, undo
return tie_itself
