-- An item is taken off its list before it is written to its new place. So the script first tries whether the access
-- rules allow the commands for the new place and for the way back into the list: it calls them on a key that is
-- deleted again. One try is enough for all items with the same step. Items that are only removed need none.
local NOTHING = ...
local refusals = {}

-- The error that a step of a settlement would give, if any.
return function(what)
  if what == 'remove' or what == 'fail' or what == 'drop' or what == 'none' then return false end
  if refusals[what] ~= nil then return refusals[what] end
  local cleaned = redis.pcall('LREM', NOTHING, '0', '')
  if type(cleaned) == 'table' then return cleaned.err end
  local to_set = what == 'retry' or what == 'schedule' or what == 'dead'
  local replies = {
    redis.pcall('SET', NOTHING, '', 'XX'), -- the receipt: without it a repeated batch may remove an equal item
    to_set and redis.pcall('ZADD', NOTHING, 'XX', '0', ''),
    redis.pcall('RPUSH', NOTHING, ''), -- for 'front', and for the way back into the list
    (what == 'back' or what == 'park') and redis.pcall('LPUSH', NOTHING, ''),
  }
  redis.call('LREM', NOTHING, '0', '')
  local refused = false
  for _, reply in ipairs(replies) do
    if type(reply) == 'table' and reply.err then refused = refused or reply.err end
  end
  refusals[what] = refused
  return refused
end
