-- Lets the locks of running jobs last on.
-- KEYS: locks    ARGV: for each lock the jid of its job, and its life
-- include note.lua
-- include lock.lua
for number, key in ipairs(KEYS) do
  if holds(key, ARGV[2 * number - 1]) then prolong_lock(key, ARGV[2 * number]) end
end
