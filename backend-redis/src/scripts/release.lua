-- Ends the holds of owners and their places in the queues, and touches nothing of another owner or program.
--
--   * The lock goes to the first waiters, or is free at once; or it stays taken, without an owner, for `linger` ms from now.
--   * If the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it.
--   * Every path writes, so that a replica answers READONLY instead of 0.
--
-- KEYS   of all claims, as of `acquire_in_turn.lua`
-- ARGV   linger in ms, for all claims; then the owner of each claim
-- Reply  1 if all are released; else one answer for each claim, bare if there is one claim: 1 released, 0 not held

-- The usual case: the owners hold their names, and no other owner reads or waits.
local linger, claims = ARGV[1], #ARGV - 1
local are_held = linger == '0' and redis.call('EXISTS', unpack(KEYS, 2 * claims + 1, 3 * claims)) == 0
for claim = 1, claims do
  are_held = are_held and redis.pcall('GET', KEYS[claim]) == ARGV[claim + 1]
end
if are_held then
  redis.call('DEL', unpack(KEYS, 1, 2 * claims))
  return 1
end

-- include lib.lua
-- include queue.lua

local function release(name, owner)
  local held, now = lock_value(name), time()
  local readers_end = held == 'shared' and purge_ended_readers(name, now)
  if readers_end and call('ZSCORE', name.shared, owner) then
    release_reader(name, owner, linger, now)
    return 1
  end
  if held ~= owner then
    if is_record_of(owner, call('GET', name.holder)) then
      call('DEL', name.holder)
    end
    leave_queue(name, owner)
    call('ZREM', name.shared, owner)
    if readers_end then
      -- The owner may have been a writer in front of waiting readers.
      hand_over_or_free(name, now, readers_end)
    end
    return 0
  end
  if linger == '0' then
    hand_over_or_free(name, now)
    return 1
  end
  -- Waiters find the free name at a heartbeat. PEXPIRE comes first: it needs no memory, which may be full.
  local record = call('GET', name.holder)
  call('PEXPIRE', name.lock, linger)
  call('SET', name.lock, 'released', 'PX', linger)
  if record then
    call('SET', name.holder, string.gsub(record, '^%S+', 'released', 1), 'PX', linger)
  end
  return 1
end

return answer_each(release, KEY_ORDER, claims, 1)
