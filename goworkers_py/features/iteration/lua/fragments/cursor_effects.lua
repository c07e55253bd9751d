-- The effect 'cursor': stores the cursor of an iterable job, see begin_iteration.lua, or forgets it. Nothing is done after a
-- later run has begun, or while the key is that of another job with the same jid. The job is settled in any case. The
-- values: number of the run, '1' at the end of the job, cursor, seconds, `of`.
local arguments = ...

local function apply(key, life, first)
  local run, ex = arguments[first], redis.pcall('HGET', key, 'ex')
  if type(ex) == 'table' or (tonumber(ex or 0) or 0) > tonumber(run) then return end
  if ex and redis.pcall('HGET', key, 'of') ~= arguments[first + 4] then return end
  if arguments[first + 1] == '1' then
    redis.pcall('DEL', key)
    return
  end
  redis.pcall('HSET', key, 'ex', run, 'py', run, 'v', '1', 'c', arguments[first + 2], 'rt', arguments[first + 3],
    'of', arguments[first + 4])
  redis.pcall('EXPIRE', key, life)
end

return {cursor = {apply = apply}}
