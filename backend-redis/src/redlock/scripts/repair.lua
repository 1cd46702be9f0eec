-- Sets a lock on this node that its owner holds on most others, because the node has come back without it or was away when it was
-- taken.
--
--   * Only if the name is free here, and no record keeps it for another owner.
--   * The last token of the name is afterwards at least that of the grant.
--
-- KEYS   the lock, its holder record, the last token of the name
-- ARGV   the lock's value, the token of the grant, ttl in ms, the rest of the record
-- Reply  1 set, 0 nothing done

-- include node.lua

local lock, holder, last = KEYS[1], KEYS[2], KEYS[3]
local value, token, ttl, rest = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local record = redis.call('GET', holder)
if redis.call('GET', lock) or (record and owner_of(record) ~= parts(value)) then
  return 0
end
if tonumber(last_token(redis.call('GET', last))) < tonumber(token) then
  write_token(last, token, clock())
end
redis.call('SET', holder, value .. ' ' .. token .. ' ' .. rest, 'PX', ttl)
redis.call('SET', lock, value, 'PX', ttl)
return 1
