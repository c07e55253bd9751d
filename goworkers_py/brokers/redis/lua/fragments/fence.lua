-- Stands before the source of every script that is called behind a fence, see `fencing`: then the script does nothing
-- when the term is over.
-- KEYS: those of the script, then the lease of the fence
-- ARGV: those of the script, then the token of the term
do
  local LEASE, token = KEYS[#KEYS], ARGV[#ARGV]
  KEYS[#KEYS], ARGV[#ARGV] = nil, nil
  if redis.call('HGET', LEASE, 'token') ~= token then
    return redis.error_reply('FENCED the lease of this leader has ended')
  end
end
