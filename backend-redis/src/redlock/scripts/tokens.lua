
-- The last token that this node has of the name. Nonsense that another program wrote there counts for nothing.
local function last_token(text)
  return text and string.match(text, '^%d+') or '0'
end

-- Kept until the node's clock is a day past it, so that the clocks alone make the next token larger than a forgotten one.
local function write_token(last, token, now)
  local ahead = math.max(0, (tonumber(token) - tonumber(now)) / 1000)
  local keep = string.format('%.0f', math.min(86400000 + ahead, 9467280000000))
  redis.call('SET', last, token, 'PX', keep)
end

-- The node's clock in microseconds.
local function clock()
  local time = redis.call('TIME')
  return string.format('%s%06d', time[1], time[2])
end
