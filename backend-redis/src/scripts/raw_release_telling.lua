-- As raw_release.lua, and tells who waits for it. For measuring against.
--
-- KEYS  the lock
-- ARGV  owner, channel, message
-- Reply how many were told, or 0 if it was not held
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return redis.call('PUBLISH', ARGV[2], ARGV[3])
end
return 0
