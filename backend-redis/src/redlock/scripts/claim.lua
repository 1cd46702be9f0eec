-- Takes the name on this node for an owner, if it is free here, and tells what a token must be larger than.
--
--   * One owner at a time on this node, also beside clients that use plain `SET key value NX PX`.
--   * The owner that holds the name and asks again holds on, for at least its ttl from now.
--   * An earlier attempt that comes later than its successor changes nothing.
--   * If the lock key has vanished, no other owner gets the name before the lease of its holder would have ended.
--   * An error leaves nothing behind: all that can fail is asked before anything is written.
--
-- KEYS   the lock, its holder record, the last token of the name
-- ARGV   owner, attempt, place of the node, ttl in ms
-- Reply  mine, the last token, the clock in µs, and the token of this owner's grant if this node has one;
--        or busy, and the ms until it ends; or late; or twice, and the place under which this server is named as well

-- include node.lua

local lock, holder, last = KEYS[1], KEYS[2], KEYS[3]
local owner, attempt, place, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local held, record = redis.call('GET', lock), redis.call('GET', holder)
local who, earlier, where = parts(held)
if held and who ~= owner then
  return { 'busy', redis.call('PTTL', lock) }
end
if held and where ~= place then
  return { 'twice', where }
end
if held and tonumber(earlier) > tonumber(attempt) then
  return { 'late' }
end
if record and owner_of(record) ~= owner then
  if not held then
    return { 'busy', redis.call('PTTL', holder) }
  end
  record = false
end

local previous, now = last_token(redis.call('GET', last)), clock()
local value = owner .. ':' .. attempt .. ':' .. place
redis.call('SET', lock, value, 'PX', ttl)
if record then
  redis.call('SET', holder, (string.gsub(record, '^%S+', value)), 'PX', ttl)
end
return { 'mine', previous, now, record and string.match(record, '^%S+ (%d+) ') or '' }
