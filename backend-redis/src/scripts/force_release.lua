-- Ends the hold of whoever holds the name, or only if its present grant has the token ARGV[1].
--
-- Guarantees, with what stands before it in `replica.lua`, and is appended to it in `hand_over.lua` and `pass_on.lua`:
--   * check and effect are one step;
--   * the lock goes to the first who waits, and if nobody does, it is free at once;
--   * the last token of the name stays, so that the next grant's is larger than the broken one's.
--
-- KEYS  the lock, its holder record, the last token of the name, its queue, the entries of those in the queue
-- ARGV  a token, or nothing for any
-- Reply as of inspect, as it was before; nothing if nothing was done

local lock, holder, last, queue, entries = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local held, record = redis.call('GET', lock), redis.call('GET', holder)
if not held and not record then
  return refusal_of_replica(lock)
end
-- A record beside a foreign program's lock tells of an earlier grant.
local of_this_grant = record and (not held or string.match(held, '^[^+]*') == string.match(record, '^%S+'))
local token = of_this_grant and string.match(record, '^%S+ (%d+)')
if ARGV[1] ~= '' and token ~= ARGV[1] then
  return false
end
local before = { held, redis.call('PTTL', lock), record, redis.call('PTTL', holder) }
local handed_over, free = before, before
