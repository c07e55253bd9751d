-- Of a push into a batch.
local type_error, batch, TIE_SIZE = ...

local function check(at)
  local place = batch.joined_place(at + TIE_SIZE)
  local failed = type_error('ZCARD', place.batches)
  for _, level in ipairs(place) do failed = failed or type_error('HLEN', level.key) end
  return failed
end

return {tries = 'HMGET HDEL HINCRBY HDEL', check = check}
