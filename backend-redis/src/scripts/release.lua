-- Ends the hold of an owner and its place in the queue, and touches nothing of another owner or program.
--
--   * The lock goes to the first waiters, or is free at once; or it stays taken, without an owner, for `linger` ms from now.
--   * If the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it.
--   * A replica does not say that the lock is not held: it refuses every write, also one that changes nothing.
--
-- KEYS   of each claim: as of `acquire.lua`
-- ARGV   of each claim: owner, linger in ms
-- Reply  of each claim: 1 released, 0 not held

-- The usual case, three commands for all claims: the owners hold their names exclusively, and nobody waits.
local answers, locks, queues, ended = {}, {}, {}, {}
for claim = 1, #KEYS / 6 do
  locks[claim], queues[claim] = KEYS[6 * claim - 5], KEYS[6 * claim - 2]
end
if redis.call('EXISTS', unpack(queues)) == 0 then
  local held = redis.call('MGET', unpack(locks))
  for claim = 1, #locks do
    if held[claim] == ARGV[2 * claim - 1] and ARGV[2 * claim] == '0' then
      answers[claim] = 1
      ended[#ended + 1] = locks[claim]
      ended[#ended + 1] = KEYS[6 * claim - 4]
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
-- include queue.lua

-- Ends the hold of a reader. The others hold on, and the lock key lasts as long as the last of them.
local function release_reader(name, owner, linger, now)
  local record = call('HGET', name.owners, owner)
  call('ZREM', name.shared, owner)
  call('HDEL', name.owners, owner)
  if linger ~= '0' and record then
    local released = 'released ' .. owner
    call('HSET', name.owners, released, (string.gsub(record, '^%S+', 'released', 1)))
    set_reader_end(name, released, now + linger * 1000, now)
  end
  local last = last_reader_end(name, now)
  if last then
    call('PEXPIRE', name.lock, millis(last - now))
  end
  pass_on(name, now, last)
end

local function release(name, owner, linger)
  local held, _, now = lock_value(name), time()
  if held == 'shared' and last_reader_end(name, now) and call('ZSCORE', name.shared, owner) then
    release_reader(name, owner, linger, now)
    return 1
  end
  if held ~= owner then
    if is_record_of(owner, call('GET', name.holder)) then
      call('DEL', name.holder)
    end
    leave_queue(name, owner)
    call('ZREM', name.shared, owner)
    if held == 'shared' then
      -- Readers behind a writer that has left the queue.
      pass_on(name, now, last_reader_end(name, now))
    end
    return 0
  end
  if linger == '0' then
    pass_on(name, now)
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

return answer_each(release, ALL_KEYS, answers)
