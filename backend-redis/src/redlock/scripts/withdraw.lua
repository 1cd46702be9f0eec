-- Ends the hold of an owner on this node, or what one attempt of it has taken, and touches nothing of another owner or program.
--
--   * The name is free here at once; or it stays taken, without an owner, for `linger` ms from now.
--   * If the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it.
--   * What a later attempt has is not touched.
--
-- KEYS   the lock, its holder record
-- ARGV   owner; attempt, or empty for any; linger in ms
-- Reply  1 ended, 0 nothing to end

-- include node.lua

local lock, holder = KEYS[1], KEYS[2]
local owner, attempt, linger = ARGV[1], ARGV[2], ARGV[3]

local held, record = redis.call('GET', lock), redis.call('GET', holder)
local recorded = owner_of(record) == owner
local who, which = parts(held)
if who ~= owner or (attempt ~= '' and which ~= attempt) then
  -- That of a later attempt keeps others out until its lease would have ended.
  if recorded and not held and (attempt == '' or string.match(record, '^%x+:(%d+):') == attempt) then
    redis.call('DEL', holder)
  end
  -- Changes nothing. A replica may not have heard of the hold, and refuses this write.
  redis.call('PEXPIRE', lock, 0, 'GT')
  return 0
end
if linger == '0' then
  redis.call('DEL', lock)
  if recorded then
    redis.call('DEL', holder)
  end
  return 1
end
-- The record stays readable, with `released` in the place of the owner, which is no owner id.
-- First a write that needs no memory: where it is full, what a script writes after its first write is not refused.
redis.call('PEXPIRE', lock, linger)
redis.call('SET', lock, 'released', 'PX', linger)
if recorded then
  redis.call('SET', holder, (string.gsub(record, '^%S+', 'released')), 'PX', linger)
end
return 1
