-- Forgets a name on this node: what an owner holds here, and the last token, unless another owner or program has the lock.
--
-- KEYS   the lock, its holder record, the last token
-- ARGV   owner
-- Reply  1 forgotten, 0 kept

-- include node.lua

local held = redis.call('GET', KEYS[1])
if held and parts(held) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
return 1
