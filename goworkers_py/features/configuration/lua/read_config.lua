-- Reads a version of a central configuration, unless it is larger than any that pyworkers writes.
-- KEYS: numbers of the newest versions, versions of this configuration
-- ARGV: name, number of the version or 0 for the newest, bytes of the largest record
-- Answer: nothing, if there is none; the number and the record, or the number alone for a larger record
local CONFIGS, CONFIG = KEYS[1], KEYS[2]
local name, version, largest = ARGV[1], ARGV[2], tonumber(ARGV[3])
if version == '0' then version = redis.call('HGET', CONFIGS, name) end
-- It is negative after a delete. Another program may have written what is no number.
if not version or not string.match(version, '^[1-9]%d*$') or #version > 15 then return {} end
local record = redis.call('HGET', CONFIG, version)
if not record then return {} end
return #record > largest and {version} or {version, record}
