-- Extends the leases of claims on this node, each by its own length. An ended lease is not brought back, another owner's is not
-- touched. No attempt that was made before takes back what was renewed, however late it comes.
--
-- KEYS   the locks of all claims; then their holder records
-- ARGV   place of the node, number of the renewal: that of no attempt; of each claim: owner, ttl in ms
-- Reply  of each claim: 1 renewed, 0 gone, 2 taken by another owner

-- include lib.lua
-- include node.lua

local place, number = ARGV[1], ARGV[2]

-- Only after the leases were extended: a server whose memory is full refuses only a first write that needs memory.
local function outdate_attempts(name, owner)
  local value, record = owner .. ':0' .. number .. ':' .. place, redis.pcall('GET', name.holder)
  call('SET', name.lock, value, 'KEEPTTL')
  if type(record) == 'string' and owner_of(record) == owner then
    call('SET', name.holder, (string.gsub(record, '^%S+', value)), 'KEEPTTL')
  end
end

local function renew(name, owner, ttl)
  local held = lock_value(name)
  local who, attempt, where = parts(held)
  if who == owner and where == place then
    extend(name.lock, ttl)
    extend(name.holder, ttl)
    -- Once is enough, and the zero says that it was done.
    if string.sub(attempt, 1, 1) ~= '0' then
      outdate_attempts(name, owner)
    end
    return 1
  end
  refuse_on_replica(name.lock)
  return (not held or held == 'released') and 0 or 2
end

return answer_each(renew, KEY_ORDER, #KEYS / 2, 2)
