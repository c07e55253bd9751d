-- Asks for the type of a key by a command that changes nothing. Returns the error, if any.
return function(command, key, ...)
  local reply = redis.pcall(command, key, ...)
  return type(reply) == 'table' and reply.err
end
