-- Grants the name to ARGV[1] for ARGV[2] ms, if it is free and its queue is empty. A grant takes four commands, five once an
-- hour, and none of them reads the queue. The two keys of the queue are optional, because each costs as much as half a
-- command: a caller that expects no queue omits them, and the reply says if they are needed.
--
-- Guarantees, with the parts appended in `hand_over.lua` and `enqueue.lua`:
--   * one owner at a time, also towards programs that know only `SET key value NX PX`;
--   * the token is max(last + 1, server clock in µs): larger than every earlier token of the name;
--   * the owner that holds the name and asks again gets the same token, and a lease of at least ARGV[2] ms from now;
--   * if the lock key has vanished, no other owner gets the name before the lease of its holder would have ended;
--   * a free name with a queue goes to the first waiter in it, whichever owner asks;
--   * an error leaves no lock behind.
--
-- KEYS  the lock, its holder record, the last token of the name; its queue, the entries of the waiters in it
-- ARGV  owner in 32 hexadecimal digits, lease in ms, description of the holder; if the owner will wait: the channel on which
--       it is told of its grant, or `-` if it listens on none
-- Reply granted: the token as text; busy: the ms until the present lease ends, -1 if it has no end; busy, and the owner waits:
--       these ms and its place in the queue; nil if the call must be repeated with all keys

local lock, holder, last, queue, entries = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, ttl, description, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local held = redis.call('SET', lock, owner, 'NX', 'GET', 'PX', ttl)
local mine = held and string.sub(held, 1, 32) == owner
if held and not mine and not channel then
  return redis.call('PTTL', lock)
end
if mine then
  -- The reply to an earlier attempt was lost, or the message of a hand-over.
  local record = redis.call('GET', holder)
  redis.call('PEXPIRE', lock, ttl, 'GT')
  if record and string.sub(record, 1, 32) == owner then
    redis.call('PEXPIRE', holder, ttl, 'GT')
    -- A write that changes nothing: `WAIT` waits for the last write of its own connection.
    redis.call('SET', holder, record, 'KEEPTTL')
    return string.match(record, '^%x+ (%d+) ')
  end
end

-- Removes the place of an owner that gets the lock although it is queued, because a mark was lost: a release would hand the
-- lock over to it once more. Without the keys of the queue there is no such function: making it takes a thirtieth of the script.
local leave = queue and function()
  redis.pcall('ZREM', queue, owner)
  redis.pcall('HDEL', entries, owner)
end

-- From here on the lock key is set, unless another owner holds it. Every way out without a grant deletes it, so commands that
-- may fail are called by `pcall`.
local taken = mine or not held
local time = redis.pcall('TIME')
if time.err then
  if taken then
    redis.call('DEL', lock)
  end
  return redis.error_reply(time.err .. " 'time'")
end
-- Concatenation, where all six digits are there, is cheaper than `format` by a twentieth of the script.
local now = #time[2] == 6 and time[1] .. time[2] or string.format('%s%06d', time[1], time[2])
local previous
if taken then
  -- The end of this key stays as it is: setting it costs a twentieth of the script, and busy names are granted often.
  previous = redis.pcall('SET', last, now, 'GET', 'KEEPTTL')
  if type(previous) == 'table' then
    redis.call('DEL', lock)
    return previous
  end
  -- Text that is no number marks a queue.
  local clock, before = tonumber(now), previous and (tonumber(previous) or math.huge) or 0
  if before < clock then
    -- The last token is kept until the server's clock is a day past it, so that the clock alone makes the next token larger
    -- than a forgotten one. The first token of each hour sets the end of the key, an hour later than that, for the whole hour.
    if before < clock - clock % 3600000000 then
      local kept = redis.pcall('SET', last, now, 'PX', '90000000')
      if kept.err then
        redis.call('DEL', lock)
        return kept
      end
    end
    local record = owner .. ' ' .. now .. ' ' .. now .. ' ' .. description
    local earlier = redis.pcall('SET', holder, record, 'NX', 'GET', 'PX', ttl)
    if not earlier then
      if queue then
        leave()
      end
      return now
    end
    if type(earlier) == 'table' then
      redis.call('DEL', lock)
      return earlier
    end
    if string.sub(earlier, 1, 32) == owner then
      redis.call('SET', holder, record, 'PX', ttl)
      if queue then
        leave()
      end
      return now
    end
  end
end

-- The rest of the script is for a name that is held or has a queue, whose lock key vanished under its holder, or whose last
-- token is ahead of the server's clock.
