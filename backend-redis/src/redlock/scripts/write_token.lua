-- Writes the token of a grant on this node, if the node still holds the name for it.
--
--   * Only where the lock is that of this very attempt: one whose lease has ended here, or that was taken back, writes nothing,
--     however late it comes. Also where a renewal was quicker on a node that is late: then there is no record yet.
--   * Only a token larger than the last one: so a node writes each token once, for one owner.
--   * The lease lasts at least `ttl` ms from now, and the record of the holder as long.
--
-- KEYS   the lock, its holder record, the last token of the name
-- ARGV   the lock's value, the token, ttl in ms, description of the holder
-- Reply  1 written, 0 nothing done

-- include node.lua

local lock, holder, last = KEYS[1], KEYS[2], KEYS[3]
local value, token, ttl, words = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local held = redis.call('GET', lock)
if held ~= value and (not is_renewed(held, value) or owner_of(redis.call('GET', holder)) == parts(value)) then
  return 0
end
if tonumber(last_token(redis.call('GET', last))) >= tonumber(token) then
  return 0
end
local now = clock()
write_token(last, token, now)
redis.call('SET', holder, held .. ' ' .. token .. ' ' .. now .. ' ' .. words, 'PX', ttl)
redis.call('PEXPIRE', lock, ttl, 'GT')
return 1
