
-- Makes a key last at least `ttl` ms from now, and never less than it did. One to which somebody has given no end, by
-- PERSIST, would outlive its holder for ever: no end is greater than any.
local function extend(key, ttl)
  if redis.call('PEXPIRE', key, ttl, 'GT') == 0
    and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ttl)
  end
end
