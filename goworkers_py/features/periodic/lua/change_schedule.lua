-- People change a schedule.
-- KEYS: record of the schedule
-- ARGV: pause, resume, override or ask; then the text of an override
-- Answer: 1, or 0 when there is no such schedule, or nothing to change
local now = ...
local RECORD = KEYS[1]
local V, word = '1', ARGV[1]
if redis.call('HGET', RECORD, 'v') ~= V then return 0 end
local paused = redis.call('HGET', RECORD, 'paused')
if (word == 'pause' and paused) or (word == 'resume' and not paused) then return 0 end
local n = (tonumber(redis.call('HGET', RECORD, 'n')) or 0) + 1
redis.call('HSET', RECORD, 'n', string.format('%d', n))
if word == 'pause' then redis.call('HSET', RECORD, 'paused', now) end
if word == 'resume' then redis.call('HDEL', RECORD, 'paused') end
if word == 'override' and ARGV[2] == '' then redis.call('HDEL', RECORD, 'override') end
if word == 'override' and ARGV[2] ~= '' then redis.call('HSET', RECORD, 'override', ARGV[2]) end
if word == 'ask' then
  local asked = (tonumber(redis.call('HGET', RECORD, 'asked')) or 0) + 1
  redis.call('HSET', RECORD, 'asked', string.format('%d', asked))
end
-- Slots of the time of a pause, or of another rule, are not missed ones.
if word == 'resume' or word == 'override' then redis.call('HSET', RECORD, 'anchor', now) end
return 1
