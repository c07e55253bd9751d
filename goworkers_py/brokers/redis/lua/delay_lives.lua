-- Included by other scripts, which have `now`, and the claims and the owners of a delay queue as their third and fourth
-- key: which owners have a lease, and which claims count.
local CLAIMS, OWNERS = KEYS[3], KEYS[4]

local function lives(owner)
  local until_ = redis.call('ZMSCORE', OWNERS, owner)[1]
  return until_ and tonumber(until_) > tonumber(now)
end

local function claimed_elsewhere(id, owner)
  local claim = redis.call('HGET', CLAIMS, id)
  local claimant = claim and string.match(claim, '^%S+ (.*)$')
  return claimant and claimant ~= owner and lives(claimant)
end
