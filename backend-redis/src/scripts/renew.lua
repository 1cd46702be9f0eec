-- Extends the leases of claims, each by its own length. An ended lease is not brought back, another owner's is not touched.
--
-- KEYS   the locks of all claims; then their holder records. No others: `mod.rs` says why.
-- ARGV   of each claim: owner, ttl in ms
-- Reply  of each claim: 1 renewed, 0 gone, 2 taken by another owner

-- include lib.lua

local function renew(name, owner, ttl)
  local held = lock_value(name)
  if held == owner then
    extend(name.lock, ttl)
    extend(name.holder, ttl)
    return 1
  end
  refuse_on_replica(name.lock)
  return (not held or held == 'released') and 0 or 2
end

return answer_each(renew, KEY_ORDER, #KEYS / 2, 0)
