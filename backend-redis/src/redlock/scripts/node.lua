-- What stands in the lock key of a node: `owner:attempt:node`. The owner asks again under a new attempt, so that what is
-- taken back of an earlier one never takes from a later one, however late it comes. A renewal counts as one more, with a zero
-- before its number: it may be what an earlier attempt has left here that the hold rests on from then on. The node is its place
-- in the owner's URL: a server that finds its lock set for another place is named twice.

-- Owner, attempt and place in a lock's value; nothing if another program wrote it.
local function parts(value)
  if value then
    return string.match(value, '^(%x+):(%d+):(%d+)$')
  end
end

-- True if what is held is an attempt of this value that was renewed since.
local function is_renewed(held, value)
  local who, number, where = parts(held)
  local owner, attempt, place = parts(value)
  return who == owner and where == place and string.sub(number, 1, 1) == '0' and tonumber(number) > tonumber(attempt)
end

-- The owner of a holder record, which is the lock's value, token, time and description with spaces between.
local function owner_of(record)
  return record and string.match(record, '^(%x+):')
end

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
