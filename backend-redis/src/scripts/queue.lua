-- Grants, and the queue of waiters. Included behind `lib.lua`.

-- max(last + 1, now): larger than every earlier token of the name, also if the clock went back. Up to 2^53 - 1, because a
-- double counts by one up to there. A last token that is no number is another program's, and counts for nothing.
--
-- It is kept until the clock is a day past it at least, so that the clock alone makes the next token larger than a forgotten
-- one. At most 300 years: the server refuses a larger expiry, and another program may have written any number.
local function take_token(name, now)
  local last = tonumber(call('SET', name.token, digits(now), 'GET', 'PX', '90000000') or nil) or 0
  if last < now or last ~= last then
    return now
  end
  local token = math.min(last + 1, 9007199254740991)
  local ahead = math.floor((token - now) / 1000)
  call('SET', name.token, digits(token), 'PX', math.min(90000000 + ahead, 9467280000000))
  return last < token and token or error('TOKENS used up', 0)
end

-- Ends the lease of a reader. Returns when the last lease of the others ends, nil if there are none.
local function end_reader(name, owner, now)
  call('ZREM', name.shared, owner)
  call('HDEL', name.owners, owner)
  return last_reader_end(name, now)
end

-- Takes a grant back. Other readers hold on.
local function revoke(name, claim, now)
  local last = claim.mode == 'shared' and end_reader(name, claim.owner, now)
  if last then
    call('PEXPIRE', name.lock, millis(last - now))
  else
    call('DEL', name.lock, name.holder)
  end
end

local function write_grant(name, claim, token, now, readers_end)
  local record = claim.owner .. ' ' .. digits(token) .. ' ' .. digits(now) .. ' ' .. claim.description
  if claim.mode == 'shared' then
    local ends = now + claim.ttl * 1000
    -- DEL comes first: without the right to it, no lock key is left.
    call('DEL', name.holder)
    call('SET', name.lock, 'shared', 'PX', millis(math.max(readers_end or 0, ends) - now))
    call('HSET', name.owners, claim.owner, record)
    set_reader_end(name, claim.owner, ends, now)
  else
    call('SET', name.lock, claim.owner, 'PX', claim.ttl)
    call('SET', name.holder, record, 'PX', claim.ttl)
  end
end

-- Makes a claim a holder, or raises an error and leaves no hold. `readers_end` is when the last lease of the present readers ends.
local function grant(name, claim, token, now, readers_end)
  local done, why = pcall(write_grant, name, claim, token, now, readers_end)
  if not done then
    pcall(revoke, name, claim, now)
    error(why, 0)
  end
end

local function leave_queue(name, owner)
  call('ZREM', name.queue, owner)
  call('HDEL', name.owners, owner)
end

-- The entry of a waiter is `alive_at ttl channel mode description`. Nil if it is gone, or had no heartbeat for two seconds.
local function live_waiter(name, owner, now)
  local entry = call('HGET', name.owners, owner) or ''
  local alive_at, ttl, channel, mode, description = string.match(entry, '^(%d+) (%d+) (%S+) (%a+) (.*)$')
  alive_at = tonumber(alive_at)
  -- Not from before the clock was set back: a dead waiter would stay for as long.
  if alive_at and math.abs(now - alive_at) <= 2000000 then
    return { owner = owner, alive_at = alive_at, ttl = ttl, channel = channel, mode = mode, description = description }
  end
end

-- Makes a key of waiters last for half a minute to a minute from now, or as long as it already does.
local function keep(key)
  if call('PTTL', key) < 30000 then
    call('PEXPIRE', key, '60000')
  end
end

-- Puts a claim at the end of the queue, or keeps its place for two more seconds. Returns the place.
local function join_queue(name, claim, now)
  local last, last_place = unpack(call('ZRANGE', name.queue, '-1', '-1', 'WITHSCORES'))
  local waiter = last and live_waiter(name, last, now)
  -- A dead last waiter goes, so that no dead ones pile up while a lock is held for long.
  if last and last ~= claim.owner and not waiter then
    leave_queue(name, last)
  end
  -- The keys last for long enough if the last waiter has asked within this second.
  local needs_keep = not waiter or math.floor(waiter.alive_at / 1000000) ~= math.floor(now / 1000000)
  -- Places are unique, and a new one is the largest, also if the server's clock went back.
  local place = math.max(now, (tonumber(last_place) or 0) + 1)
  local entry = claim.ttl .. ' ' .. claim.channel .. ' ' .. claim.mode .. ' ' .. claim.description
  local joined, added = pcall(function()
    call('HSET', name.owners, claim.owner, digits(now) .. ' ' .. entry)
    local added = call('ZADD', name.queue, 'NX', digits(place), claim.owner)
    if needs_keep then
      keep(name.owners)
      keep(name.queue)
    end
    return added
  end)
  if not joined then
    -- An owner that has a place keeps it until its last heartbeat is two seconds old.
    if redis.pcall('ZSCORE', name.queue, claim.owner) == false then
      call('HDEL', name.owners, claim.owner)
    end
    error(added, 0)
  end
  return added == 1 and place or tonumber(call('ZSCORE', name.queue, claim.owner))
end

-- Tells a waiter of its grant. False if its process is gone: nothing listens on its channel. The message is not replicated: a
-- process that still listens on a former primary is not counted. A missing right is no sign of death: the heartbeat of the waiter
-- finds the grant.
local function notify(waiter, place, token)
  if waiter.channel == '-' then
    return true
  end
  pcall(redis.set_repl, redis.REPL_NONE)
  local listeners = redis.pcall('PUBLISH', waiter.channel, waiter.owner .. ' ' .. place .. ' ' .. digits(token))
  pcall(redis.set_repl, redis.REPL_ALL)
  return type(listeners) == 'table' or listeners > 0
end

-- Grants a name that no exclusive owner holds to the waiters whose turn it is: to the first one, or to the first readers in a
-- row. Dead waiters in front of them leave the queue. `readers_end` is when the last lease of the present readers ends. `asking`, the
-- caller, needs no message.
--
-- Returns `free` or `shared` if no waiter is left, `taken` if a claim that comes now has to wait, `more` if nobody got the name and
-- dead waiters may be left: one call serves at most 256, so that a crowd does not delay the commands of others. The second result is
-- the token of `asking`, if it was among them. No error ends a call that has granted the name.
local function grant_next_waiters(name, now, readers_end, asking)
  local is_granted, asking_token = false, nil
  local done, state = pcall(function()
    for _ = 1, 256 do
      local owner, place = unpack(call('ZRANGE', name.queue, '0', '0', 'WITHSCORES'))
      if not owner then
        if not readers_end and call('EXISTS', name.owners) == 1 then
          -- Entries of readers whose ends expired with their key. HDEL is an error if the data is another program's.
          call('HDEL', name.owners, '')
          call('DEL', name.owners)
        end
        return readers_end and 'shared' or 'free'
      end
      local waiter = live_waiter(name, owner, now)
      if waiter and readers_end and waiter.mode ~= 'shared' then
        return 'taken'
      end
      leave_queue(name, owner)
      if waiter then
        local token = take_token(name, now)
        grant(name, waiter, token, now, readers_end)
        if owner ~= asking and not notify(waiter, place, token) then
          revoke(name, waiter, now)
        else
          is_granted, asking_token = true, owner == asking and token or asking_token
          if waiter.mode ~= 'shared' then
            return 'taken'
          end
          readers_end = math.max(readers_end or 0, now + waiter.ttl * 1000)
        end
      end
    end
    return readers_end and 'taken' or 'more'
  end)
  if done or is_granted then
    return done and state or 'taken', asking_token
  end
  error(state, 0)
end

-- A hold has ended: hands the name over, or frees it. While others read, the lock key lasts as long as their last lease. An error
-- does not stop the release: the next heartbeat of a waiter serves the queue.
local function hand_over_or_free(name, now, readers_end)
  if readers_end then
    call('PEXPIRE', name.lock, millis(readers_end - now))
  end
  local done, state = pcall(grant_next_waiters, name, now, readers_end)
  if not done then
    state = readers_end and 'shared' or 'free'
  end
  if state == 'free' or state == 'more' then
    call('DEL', name.lock, name.holder)
  end
end

-- Ends the hold of a reader. With `linger` it stays, without an owner.
local function release_reader(name, owner, linger, now)
  local record = linger ~= '0' and call('HGET', name.owners, owner) or ''
  local last = end_reader(name, owner, now)
  if linger ~= '0' then
    local released = 'released ' .. owner
    extend(name.lock, linger)
    call('HSET', name.owners, released, (string.gsub(record, '^%S+', 'released', 1)))
    set_reader_end(name, released, now + linger * 1000, now)
    last = last_reader_end(name, now)
  end
  hand_over_or_free(name, now, last)
end
