-- Ends the grant of ARGV[1] that has the token ARGV[3], as `release.lua` ends a hold, and nothing else. A grant that the
-- same owner was given since then has another token and is not touched, however late this comes; nor is its place in the
-- queue.
--
-- KEYS  as of `release.lua`, all of them
-- ARGV  owner, 0 ms to linger, token
-- Reply as of `release.lua`

local named = ARGV[1] .. ' ' .. ARGV[3] .. ' '
local record_now = redis.call('GET', KEYS[2])
if not record_now or string.sub(record_now, 1, #named) ~= named then
  return refusal_of_replica(KEYS[1]) or 0
end

