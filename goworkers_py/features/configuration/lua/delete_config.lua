-- Deletes all versions of a central configuration. Its number stays, negative.
-- KEYS: numbers of the newest versions, versions of this configuration
-- ARGV: name, the version of the records that this release writes
-- Answer: 1; 0: there is none; -1: a later release has written the configuration
local CONFIGS, CONFIG = KEYS[1], KEYS[2]
local known = redis.call('HGET', CONFIG, 'v')
if known and known ~= ARGV[2] then return -1 end
local version = tonumber(redis.call('HGET', CONFIGS, ARGV[1]) or 0)
if version <= 0 then return 0 end
redis.call('HSET', CONFIGS, ARGV[1], -version)
redis.call('DEL', CONFIG)
return 1
