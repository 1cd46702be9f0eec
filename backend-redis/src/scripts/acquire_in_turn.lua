-- Decides each claim of a reader, and each exclusive claim that `acquire.lua` left open. The owner gets the name if it is its turn;
-- else it joins the queue if it waits.
--
--   * One exclusive owner holds a name, or readers, also beside clients that use plain `SET key value NX PX`.
--   * An owner that holds the name, with its record, and asks again gets the same token, and a lease of at least its ttl from now.
--   * The first waiters of a queue get the name, no matter which owner asks: no reader passes a waiting writer.
--   * If the lock key or `:shared` has vanished, no other owner gets the name before the leases would have ended.
--
-- KEYS   the lock, its holder record, the entries of waiters and readers, the last token, the queue, the ends of the readers
-- ARGV   owner, ttl in ms, description of the holder, mode: exclusive or shared; channel of the owner's process: `-` if it hears
--        no messages, empty if the owner does not wait
-- Reply  the token; or the ms until the present lease ends, or -1; or these ms and the place in the queue, if the owner waits

-- include lib.lua
-- include queue.lua

local function acquire(name, owner, ttl, description, mode, channel)
  local now, held = time(), call('GET', name.lock)
  local is_another = held and held ~= owner and held ~= 'shared'
  local record = not is_another and call('GET', name.holder)
  local is_recorded = is_record_of(owner, record)
  if held == owner and is_recorded then
    -- The reply to an earlier attempt was lost, or the message of a hand-over.
    extend(name.lock, ttl)
    extend(name.holder, ttl)
    return string.match(record, '^%S+ (%d+)')
  end
  local claim = { owner = owner, ttl = ttl, description = description, channel = channel, mode = mode }
  local readers_end = held ~= owner and not is_another and purge_ended_readers(name, now)
  -- Without readers, the value `shared` is another program's.
  local blocker = (is_another or (held == 'shared' and not readers_end)) and name.lock
  -- A record without its lock key: that was deleted or evicted, and the holder does not know it yet.
  blocker = blocker or (record and not is_recorded and name.holder)
  if not blocker then
    local reader = held and readers_end and extend_reader(name, owner, ttl, now)
    if reader then
      return string.match(reader, '^%S+ (%d+)')
    end
    local state, token = 'free', nil
    if held ~= owner and not is_recorded then
      state, token = grant_next_waiters(name, now, readers_end, owner)
    end
    if not token and (state == 'free' or (state == 'shared' and mode == 'shared')) then
      token = take_token(name, now)
      grant(name, claim, token, now, readers_end)
      -- A damaged queue may still have the owner. No error, because the claim is granted.
      if mode ~= 'shared' then pcall(leave_queue, name, owner) end
    end
    if token then
      return digits(token)
    end
    blocker = call('EXISTS', name.lock) == 1 and name.lock or name.shared
  end
  -- The first write needs no memory: a waiter keeps its place while the memory is full.
  refuse_on_replica(blocker)
  local left = ms_left(blocker)
  return channel == '' and left or { left, join_queue(name, claim, now) }
end

return answer_each(acquire, KEY_ORDER, 1, 0)
