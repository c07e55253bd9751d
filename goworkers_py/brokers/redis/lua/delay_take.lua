-- Claims tasks that are due, and on which no other owner with a lease has a claim.
-- KEYS: tasks, due times, claims, owners
-- ARGV: owner, claim and owner, by when the tasks must be due, ids
-- Answer: id and record of each claimed task; nothing where the owner has no lease
-- include now.lua
local TASKS, DUE, CLAIMS, OWNERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- include delay_lives.lua
local owner, own_claim, by = ARGV[1], ARGV[2], tonumber(ARGV[3])

local taken = {}
if not lives(owner) then return taken end
for at = 4, #ARGV do
  local id = ARGV[at]
  local due = redis.call('ZMSCORE', DUE, id)[1]
  local record = redis.call('HGET', TASKS, id)
  if due and record and tonumber(due) <= by and not claimed_elsewhere(id, owner) then
    redis.call('HSET', CLAIMS, id, own_claim)
    taken[#taken + 1] = id
    taken[#taken + 1] = record
  end
end
return taken
