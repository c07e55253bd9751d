-- Deletes the record of a job that was found nowhere, unless the job has moved since the caller read the record.
-- KEYS: record    ARGV: number of moves that the caller has read
-- Answer: 1 when it was deleted
if redis.call('HGET', KEYS[1], 'n') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
