-- Extends the leases of readers, each by its own length. An ended lease is not brought back.
--
-- KEYS   the locks of all claims; then the entries of their waiters and readers; then the ends of their readers
-- ARGV   of each claim: owner, ttl in ms
-- Reply  of each claim: 1 renewed, 0 gone, 2 taken by another owner

-- include lib.lua

local now = time()

local function renew_shared(name, owner, ttl)
  local held = lock_value(name)
  if held == 'shared' and extend_reader(name, owner, ttl, now) then
    return 1
  end
  refuse_on_replica(name.lock)
  return (not held or held == 'shared' or held == 'released') and 0 or 2
end

return answer_each(renew_shared, { 'lock', 'owners', 'shared' }, #KEYS / 3, 0)
