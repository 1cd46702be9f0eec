-- Ends the hold of ARGV[1], and only that.
--
-- Guarantees:
--   * the lock is free at once, or stays taken under nobody's name for ARGV[2] ms from now;
--   * if the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it;
--   * another owner's lock, and a foreign program's, is not touched.
--
-- KEYS  the lock, its holder record
-- ARGV  owner, ms to linger
-- Reply 1 released, 0 not held

local lock, holder = KEYS[1], KEYS[2]
local owner, linger = ARGV[1], ARGV[2]

local held = redis.pcall('GET', lock)
if held == owner then
  if linger == '0' then
    redis.call('DEL', lock, holder)
    return 1
  end
  -- Who held it, and with which token, stays readable; the word `released` is nobody's owner id.
  local record = redis.call('GET', holder)
  redis.call('SET', lock, 'released', 'PX', linger)
  if record then
    redis.call('SET', holder, 'released' .. string.sub(record, 33), 'PX', linger)
  end
  return 1
end
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
  return redis.error_reply(held.err .. " 'get'")
end
local record = redis.call('GET', holder)
if record and string.sub(record, 1, 32) == owner then
  redis.call('DEL', holder)
end
return 0
