-- Deletes entries of a queue by their exact bytes, where they were seen a moment ago. LREM by itself would walk through
-- the queue for each of them; so they are marked first, and the marks removed in one walk.
-- KEYS: queue, a key that never exists
-- ARGV: first place to look at, last place, a mark that is nobody's payload, then the entries
-- Answer: how many were still there
local first, mark, wanted, deleted = tonumber(ARGV[1]), ARGV[3], {}, 0
-- Where LREM is not allowed this says so before anything is marked. And a script that has begun to write is let go on
-- when the server is out of memory.
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
