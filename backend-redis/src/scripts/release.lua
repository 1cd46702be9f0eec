-- Ends the hold of an owner and its place in the queue, and touches nothing of another owner or program.
--
--   * The lock goes to the first waiter, or is free at once; or it stays taken, without an owner, for `linger` ms from now.
--   * If the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it.
--   * A replica does not say that the lock is not held: it refuses every write, also one that changes nothing.
--
-- KEYS   of each claim: as of `acquire.lua`
-- ARGV   of each claim: owner, linger in ms
-- Reply  of each claim: 1 released, 0 not held

-- The usual case, three commands for all claims: the owners hold their names, and nobody waits.
local answers, locks, queues, ended = {}, {}, {}, {}
for claim = 1, #KEYS / 5 do
  locks[claim], queues[claim] = KEYS[5 * claim - 4], KEYS[5 * claim - 1]
end
if redis.call('EXISTS', unpack(queues)) == 0 then
  local held = redis.call('MGET', unpack(locks))
  for claim = 1, #locks do
    if held[claim] == ARGV[2 * claim - 1] and ARGV[2 * claim] == '0' then
      answers[claim] = 1
      ended[#ended + 1] = locks[claim]
      ended[#ended + 1] = KEYS[5 * claim - 3]
    end
  end
  if #ended > 0 then
    redis.call('DEL', unpack(ended))
  end
  if #locks == 1 and answers[1] then
    return 1
  end
end

-- include lib.lua

local function release(name, owner, linger)
  if lock_value(name) ~= owner then
    if is_record_of(owner, call('GET', name.holder)) then
      call('DEL', name.holder)
    end
    leave_queue(name, owner)
    return 0
  end
  if linger == '0' then
    pass_on(name)
    return 1
  end
  -- Waiters find the free name at a heartbeat. The first write needs no memory: a server whose memory is full refuses only
  -- the first write of a script.
  local record = call('GET', name.holder)
  call('PEXPIRE', name.lock, linger)
  call('SET', name.lock, 'released', 'PX', linger)
  if record then
    call('SET', name.holder, string.gsub(record, '^%S+', 'released', 1), 'PX', linger)
  end
  return 1
end

return answer_each(release, 5, answers)
