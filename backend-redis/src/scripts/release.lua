-- Ends the hold of ARGV[1], or its place in the queue, and nothing else. Two commands if nobody waits, and no need of the
-- keys from the third on: who hopes for that leaves them out, and is told if they are needed.
--
-- Guarantees, with what stands before it in `replica.lua`, and is appended to it in `hand_over.lua` and `pass_on.lua`:
--   * the lock goes to the first who waits, and if nobody does, it is free at once; or it stays taken under nobody's
--     name for ARGV[2] ms from now;
--   * if the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it;
--   * another owner's lock, and a foreign program's, is not touched;
--   * a replica does not say that it is not held.
--
-- KEYS  the lock, its holder record; the last token of the name, its queue, the entries of those in the queue
-- ARGV  owner, ms to linger
-- Reply 1 released, 2 released and handed over, 0 not held, nothing if it must be asked with all keys

local lock, holder = KEYS[1], KEYS[2]
local owner, linger = ARGV[1], ARGV[2]

local held = redis.pcall('GET', lock)
if held == owner and linger == '0' then
  redis.call('DEL', lock, holder)
  return 1
end
local last, queue, entries = KEYS[3], KEYS[4], KEYS[5]
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
  return redis.error_reply(held.err .. " 'get'")
end
if held ~= owner and held ~= owner .. '+' then
  local refusal = refusal_of_replica(lock)
  if refusal then
    return refusal
  end
  local record = redis.call('GET', holder)
  if record and string.sub(record, 1, 32) == owner then
    redis.call('DEL', holder)
  end
  if queue then
    redis.call('ZREM', queue, owner)
    redis.call('HDEL', entries, owner)
  end
  return 0
end
if linger ~= '0' then
  -- Who held it, and with which token, stays readable; the word `released` is nobody's owner id. Who waits comes by
  -- itself when it is over.
  local record = redis.call('GET', holder)
  -- A write that needs no memory: where it is full, what a script writes after its first write is not refused.
  redis.call('PEXPIRE', lock, linger)
  redis.call('SET', lock, 'released', 'PX', linger)
  if record then
    redis.call('SET', holder, 'released' .. string.sub(record, 33), 'PX', linger)
  end
  return 1
end
if not queue then
  return false
end
local handed_over, free = 2, 1
