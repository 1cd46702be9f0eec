-- What stands in the lock key of a node: `owner:attempt:node`. The owner asks again under a new attempt, so that what is
-- taken back of an earlier one never takes from a later one, however late it comes. The node is its place in the
-- owner's URL: a server that finds its lock set for another place is named twice.

-- Owner, attempt and place in a lock's value; nothing if another program wrote it.
local function parts(value)
  if value then
    return string.match(value, '^(%x+):(%d+):(%d+)$')
  end
end

-- The owner of a holder record, which is the lock's value, token, time and description with spaces between.
local function owner_of(record)
  return record and string.match(record, '^(%x+):')
end
