-- Reads how many jobs lists have, and the oldest job of each: of a large one only its beginning and its end.
--
-- KEYS: the lists
-- ARGV: the most bytes of a whole job, how many bytes of a beginning, of an end
-- Answer: for each list: its size (-1: it is no list), its oldest job or the beginning, the size of that job, its end
--         ('': it is whole)
local longest, head, tail = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local answer = {}
for i = 1, #KEYS do
  local size, job, whole, last = redis.pcall('LLEN', KEYS[i]), '', 0, ''
  if type(size) == 'table' then
    if not string.find(size.err, 'wrong kind of value', 1, true) then return size end
    size = -1
  end
  if size > 0 then
    job = redis.call('LINDEX', KEYS[i], -1)
    whole = #job
    if whole > longest then job, last = string.sub(job, 1, head), string.sub(job, -tail) end
  end
  for _, value in ipairs({size, job, whole, last}) do answer[#answer + 1] = value end
end
return answer
