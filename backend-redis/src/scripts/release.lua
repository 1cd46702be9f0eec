-- Ends the hold of ARGV[1], or its place in the queue, and nothing else. Two commands if nobody waits, and no need of the
-- keys from the third on: who hopes for that leaves them out, and is told if they are needed.
--
-- Guarantees, with what is appended to it in `replica.lua`, `release_rest.lua`, `hand_over.lua` and `pass_on.lua`:
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
