-- Stores a text as the newest version of a central configuration.
-- KEYS: numbers of the newest versions, versions of this configuration
-- ARGV: name, record of the version, how many versions are kept, the version of the records that this release writes
-- Answer: the number of the version; -1: a later release has written the configuration
local CONFIGS, CONFIG = KEYS[1], KEYS[2]
local name, record, kept, v = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local known = redis.call('HGET', CONFIG, 'v')
if known and known ~= v then return -1 end
-- It is negative after a delete.
local version = math.abs(tonumber(redis.call('HGET', CONFIGS, name) or 0)) + 1
redis.call('HSET', CONFIG, 'v', v, version, record)
redis.call('HSET', CONFIGS, name, version)
redis.call('HDEL', CONFIG, version - tonumber(kept))
return version
