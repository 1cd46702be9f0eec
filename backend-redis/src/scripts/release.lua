-- Ends the hold of ARGV[1], or its place in the queue, and nothing else. Two commands if nobody waits.
--
-- Guarantees, with what is appended to it in `hand_over.lua` and `pass_on.lua`:
--   * the lock goes to the first who waits, and if nobody does, it is free at once; or it stays taken under nobody's
--     name for ARGV[2] ms from now;
--   * if the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it;
--   * another owner's lock, and a foreign program's, is not touched.
--
-- KEYS  the lock, its holder record, the last token of the name, its queue, the entries of those in the queue
-- ARGV  owner, ms to linger
-- Reply 1 released, 0 not held

local lock, holder, last, queue, entries = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, linger = ARGV[1], ARGV[2]

local known = redis.pcall('MGET', lock, last)
if known.err then
  return redis.error_reply(known.err .. " 'mget'")
end
if known[1] ~= owner then
  local record = redis.call('GET', holder)
  if record and string.sub(record, 1, 32) == owner then
    redis.call('DEL', holder)
  end
  redis.call('ZREM', queue, owner)
  redis.call('HDEL', entries, owner)
  return 0
end
if linger ~= '0' then
  -- Who held it, and with which token, stays readable; the word `released` is nobody's owner id.
  local record = redis.call('GET', holder)
  redis.call('SET', lock, 'released', 'PX', linger)
  if record then
    redis.call('SET', holder, 'released' .. string.sub(record, 33), 'PX', linger)
  end
  return 1
end
local reply = 1
if not known[2] or string.sub(known[2], -6) ~= ' queue' then
  redis.call('DEL', lock, holder)
  return reply
end
local marked = known[2]
