-- Keeps tasks of a delay queue in the layout of a Go program: in one step each task and, where it is new, its id.
-- KEYS: the list of ids, then the key of each task
-- ARGV: for each task its id and its record
local LIST = KEYS[1]
redis.call('LLEN', LIST)
for at = 2, #KEYS do
  local id, record = ARGV[2 * at - 3], ARGV[2 * at - 2]
  if redis.call('EXISTS', KEYS[at]) == 0 then redis.call('LPUSH', LIST, id) end
  redis.call('SET', KEYS[at], record)
end
return #KEYS - 1
