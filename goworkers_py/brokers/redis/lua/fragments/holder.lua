-- OWNERS, BLOCKS and GONE: the registries of processes and of owners of blocks, and the identities that were declared
-- dead.
-- A missing lease is no death: after an outage all leases are missing, and their processes live. Dead is who was declared
-- dead, with the proof that recoveries need, or is in no registry: the entry is written before the first place is taken,
-- and forgotten after the end. Owners of blocks of release 0.4.0 have a lease and no entry.
local OWNERS, BLOCKS, GONE = ...

local function is_dead(owner, key_of_lease)
  if redis.call('HEXISTS', GONE, owner) == 1 then return true end
  return redis.call('HEXISTS', OWNERS, owner) == 0 and redis.call('HEXISTS', BLOCKS, owner) == 0
    and redis.call('EXISTS', key_of_lease) == 0
end

return {is_dead = is_dead}
