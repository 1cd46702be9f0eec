-- The least that ends a lease: if it is still its owner's. For measuring against.
--
-- KEYS  the lock
-- ARGV  owner
-- Reply 1 released, 0 not held
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
