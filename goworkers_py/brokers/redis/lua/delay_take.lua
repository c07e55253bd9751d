-- Claims tasks that are due, and on which no owner with a lease has a claim.
-- KEYS: tasks, due times, claims, owners
-- ARGV: owner, by when the tasks must be due, ids
-- Answer: id and record of each claimed task; nothing where the owner has no lease
-- include now.lua
local TASKS, DUE, CLAIMS, OWNERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, by = ARGV[1], tonumber(ARGV[2])

local function lives(claimant)
  local until_ = redis.call('ZMSCORE', OWNERS, claimant)[1]
  return until_ and tonumber(until_) > tonumber(now)
end

local taken = {}
if not lives(owner) then return taken end
for at = 3, #ARGV do
  local id = ARGV[at]
  local due = redis.call('ZMSCORE', DUE, id)[1]
  local record = redis.call('HGET', TASKS, id)
  local claimant = redis.call('HGET', CLAIMS, id)
  if due and record and tonumber(due) <= by and not (claimant and lives(claimant)) then
    redis.call('HSET', CLAIMS, id, owner)
    taken[#taken + 1] = id
    taken[#taken + 1] = record
  end
end
return taken
