
-- Makes a key last at least `ttl` ms from now, and never less than it did. One to which somebody has given no end, by
-- PERSIST, would outlive its holder for ever: no end is greater than any. The end of one that lasts longer is written
-- again: whoever waits for replicas waits for what its own connection wrote last.
local function extend(key, ttl)
  if redis.call('PEXPIRE', key, ttl, 'GT') == 1 then
    return
  end
  local left = redis.call('PTTL', key)
  if left > -2 then
    redis.call('PEXPIRE', key, left > -1 and left or ttl)
  end
end
