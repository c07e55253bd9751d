-- The error that the name of a line or of an outbox would give. Unlike a queue, one that is not registered may never be
-- registered again.
local type_error, trial = ...

return function(key)
  return type_error('SREM', key, '') or trial.refusal('SREM SADD SREM')
end
