-- The least that grants a lease with a token: no queue, no holder's record, no second try. For measuring against.
--
-- KEYS  the lock, the last token
-- ARGV  owner, lease in ms
-- Reply the token, or nothing if it is held
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return false
