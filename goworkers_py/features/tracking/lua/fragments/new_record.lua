-- Makes the record of a job that is pushed, where there is none. `field` says where the job is, and `name` is its value.
-- Nearly all values are short: so the pieces of `note` are not needed.
local now, make_note, NOTE_V, NOTE_PIECE = ...

return function(key, life, class, state, field, name, reason)
  if #class >= NOTE_PIECE or #name >= NOTE_PIECE then
    return make_note().write(key, life, state, reason, {'class', class, field, name})
  end
  redis.pcall('HSET', key, 'v', NOTE_V, 'state', state, 'at', now, 'n', '1', 'due', '',
    't1', state .. ' ' .. now .. ' ' .. reason, 'class', class, field, name)
  redis.pcall('EXPIRE', key, life)
end
