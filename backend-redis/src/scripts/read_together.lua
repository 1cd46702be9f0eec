-- The values of the keys from one place to another: no text for one that is not there or is no string.
local function read_together(from, to)
  local values = redis.pcall('MGET', unpack(KEYS, from, to))
  if values.err then
    -- The user may not: what was needed before this script was is enough for it.
    values = {}
    for i = from, to do
      values[#values + 1] = redis.pcall('GET', KEYS[i])
    end
  end
  return values
end
