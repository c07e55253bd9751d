-- Deletes entries of a queue by their exact bytes, near the places where the caller has just read them. An LREM for
-- each entry would walk through the whole queue; so LSET replaces them by marks, and one LREM removes all marks.
-- KEYS: queue, a key that never exists
-- ARGV: first place to look at, last place, a mark that is no job's payload, then the entries
-- Answer: how many entries were deleted
local first, mark, wanted, deleted = tonumber(ARGV[1]), ARGV[3], {}, 0
-- Where the access rules do not allow LREM, the script fails here, before it marks anything. And a server that is out
-- of memory lets a script go on that has called a write command before.
redis.call('LREM', KEYS[2], '1', mark)
for i = 4, #ARGV do wanted[ARGV[i]] = (wanted[ARGV[i]] or 0) + 1 end
for offset, raw in ipairs(redis.call('LRANGE', KEYS[1], first, ARGV[2])) do
  if (wanted[raw] or 0) > 0 then
    wanted[raw] = wanted[raw] - 1
    redis.call('LSET', KEYS[1], first + offset - 1, mark)
    deleted = deleted + 1
  end
end
if deleted > 0 then redis.call('LREM', KEYS[1], deleted, mark) end
return deleted
