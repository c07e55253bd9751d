-- Included by settle.lua and settle_rows.lua. From here on an error must not end the script, because the items are
-- settled. So all calls are pcall: a counter that cannot be written loses its count.
local function count(key, day_key, amount)
  if amount == 0 then return end
  redis.pcall('INCRBY', key, amount)
  redis.pcall('INCRBY', day_key, amount)
  redis.pcall('EXPIRE', day_key, day_life)
end
count(KEYS[5], KEYS[7], processed)
count(KEYS[6], KEYS[8], failed)
redis.pcall('SET', RECEIPT, number .. ':' .. cmsgpack.pack(answer), 'EX', receipt_life)
return answer
