-- What the scripts of a node share. Included behind `lib.lua`.
--
-- What stands in the lock key of a node: `owner:attempt:node`. The owner asks again under a new attempt, so that what is
-- taken back of an earlier one never takes from a later one, however late it comes. A renewal counts as one more, with a zero
-- before its number: it may be what an earlier attempt has left here that the hold rests on from then on. The node is its place
-- in the owner's URL: a server that finds its lock set for another place is named twice.

-- The kinds of keys of a name on a node, in the order of KEYS.
local NODE_KEYS = { 'lock', 'holder', 'token' }

local A_DAY = 86400000

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

-- The last token that this node has of the name, as text. Nonsense that another program wrote there counts for nothing.
local function last_token(name)
  local text = call('GET', name.token)
  return text and string.match(text, '^%d+') or '0'
end
