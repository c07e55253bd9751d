-- Which owners of a delay queue have a lease, and which claims count.
local now, CLAIMS, OWNERS = ...

local function lives(owner)
  local until_ = redis.call('ZMSCORE', OWNERS, owner)[1]
  return until_ and tonumber(until_) > tonumber(now)
end

local function claimed_elsewhere(id, owner)
  local claim = redis.call('HGET', CLAIMS, id)
  local claimant = claim and string.match(claim, '^%S+ (.*)$')
  return claimant and claimant ~= owner and lives(claimant)
end

return {lives = lives, claimed_elsewhere = claimed_elsewhere}
