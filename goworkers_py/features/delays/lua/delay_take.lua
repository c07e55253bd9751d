-- Claims tasks that are due by the clock of this server, and on which no other owner with a lease has a claim.
-- KEYS: tasks, due times, claims, owners
-- ARGV: owner, claim and owner, by when the tasks must be due ('+inf': they need not be due), ids
-- Answer: the time of this step, then id and record of each claimed task; none where the owner has no lease
-- For fragments: OWNERS
local TASKS, DUE, CLAIMS, OWNERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now, delay_lives = ...
local owner, own_claim, by = ARGV[1], ARGV[2], tonumber(ARGV[3])
-- The caller only guesses the time of this server.
if by < math.huge then by = math.min(by, tonumber(now)) end

local taken = {now}
if not delay_lives.lives(owner) then return taken end
for at = 4, #ARGV do
  local id = ARGV[at]
  local due = redis.call('ZMSCORE', DUE, id)[1]
  local record = redis.call('HGET', TASKS, id)
  if due and record and tonumber(due) <= by and not delay_lives.claimed_elsewhere(id, owner) then
    redis.call('HSET', CLAIMS, id, own_claim)
    taken[#taken + 1] = id
    taken[#taken + 1] = record
  end
end
return taken
