-- The effects of a step, see core/effect.py. An effect begins with a word, the number of its key, an option, and how many
-- values follow. The engine knows none of the words. What handles a word has two functions, which are called with the key,
-- the option, the first and the last value, and this fragment:
--   refusal   the error that the effect would give, before anything is done: an item and its effects are settled all or
--             not at all. Without this function the effect may fail, which does not keep the job from its step
--   apply     does it. Returns the error, if any, for which the job goes back to where it was: an effect that may fail
--             returns none
local key_at, arguments, handlers, finishers = ...
local own = {}

-- Calls `act` for each effect in these arguments. Returns the error at which it stopped, if any.
function own.each(first, last, act)
  while first <= last do
    local word, key, count = arguments[first], key_at(first + 1), tonumber(arguments[first + 3])
    local failed = act(word, key, arguments[first + 2], first + 4, first + 3 + count)
    if failed then return word == 'once' and failed or failed .. ' (key ' .. key .. ')' end
    first = first + 4 + count
  end
end

local function refusal(word, key, option, first, last)
  local refuse = handlers[word].refusal
  return refuse and refuse(key, option, first, last, own)
end

local function apply(word, key, option, first, last)
  return handlers[word].apply(key, option, first, last, own)
end

function own.refusal(first, last)
  return own.each(first, last, refusal)
end

function own.apply(first, last)
  return own.each(first, last, apply)
end

-- The last step of a script: what the handlers have gathered is written.
function own.finish()
  for _, finish in ipairs(finishers) do finish() end
end

return own
