-- Numbers of items of rows: two bytes for each.
return function(packed)
  local numbers = {}
  for at = 1, #packed, 2 do
    local high, low = string.byte(packed, at, at + 1)
    numbers[#numbers + 1] = 256 * high + low
  end
  return numbers
end
