-- Reads all that is known of a name at one instant. Changes nothing.
--
-- KEYS  the lock, its holder record
-- Reply nothing if the name is free; else the lock's value and the ms until it ends, the record and the same of it

local lock, holder = KEYS[1], KEYS[2]
local held, record = redis.call('GET', lock), redis.call('GET', holder)
if not held and not record then
  return false
end
return { held, redis.call('PTTL', lock), record, redis.call('PTTL', holder) }
