-- Whether a record is the one that the caller has read. Another may have been made since.
return function(key, version)
  local n, since = redis.pcall('HGET', key, 'n'), redis.pcall('HGET', key, 'at')
  return type(n) == 'string' and type(since) == 'string' and n .. ' ' .. since == version
end
