-- A job joins a batch. The values: the place of the batch, see batch.lua. A push into a batch that has ended does not happen.
local key_at, batch, TIE_SIZE = ...

local function decide(job, at)
  local key = key_at(at + 1)
  local joins, failed = batch.may_join(key, at + TIE_SIZE)
  if failed then return nil, failed end
  if joins then return end
  if not job.insists or batch.is_stopped(batch.joined_place(at + TIE_SIZE), 1) then return -1 end
  if not batch.takes_jobs(key) then return 'dropped' end
end

local function take(_, at)
  local reply = redis.pcall('HINCRBY', key_at(at + 1), 'total', '1')
  return type(reply) == 'table' and reply.err
end

local function undo(_, at)
  redis.pcall('HINCRBY', key_at(at + 1), 'total', '-1')
end

return {decide = decide, take = take, undo = undo}
