-- Grants the name to ARGV[1] for ARGV[2] ms, if it is free and nobody waits for it. Four commands when it is, five once an
-- hour, and none of them for the queue. Two of the keys are for the queue: since each costs as much as half a command, they
-- are left out by who hopes that they are not needed, and is told if they are.
--
-- Guarantees, with what is appended to it in `hand_over.lua` and `enqueue.lua`:
--   * one owner at a time, also towards programs that know only `SET key value NX PX`;
--   * the token is larger than every one given for this name before: max(last + 1, server clock in µs); asked for several
--     in a row, they are reserved if the clock has passed the last token, so that tokens never run ahead of the clock by
--     more than these;
--   * asked again by the owner that holds it: the same token, and a lease of at least ARGV[2] ms from now;
--   * a lock key that vanished is not granted to another owner before the lease of its holder would have ended;
--   * nobody passes by somebody who waits: a free name goes to the first in the queue, whoever asks;
--   * an error leaves no lock behind.
--
-- KEYS  the lock, its holder record, the last token of the name; its queue, the entries of those in the queue
-- ARGV  owner in 32 hexadecimal digits, lease in ms, description of the holder; if the owner will wait, how many tokens in
--       a row it can use, and the channel on which it hears of its grant, or `-` if it hears nothing
-- Reply the token as text if granted, with their number behind it if they are several; if not, the ms until the present
--       lease ends, -1 if it has no end; to one who waits, this and its place in the queue; nothing if it must be asked
--       with all keys

local lock, holder, last, queue, entries = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, ttl, description, wanted, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local held = redis.call('SET', lock, owner, 'NX', 'GET', 'PX', ttl)
local mine = held and string.sub(held, 1, 32) == owner
if held and not mine and not channel then
  return redis.call('PTTL', lock)
end
if mine then
  -- The reply to an earlier attempt was lost, or the message that the lock was handed over.
  local record = redis.call('GET', holder)
  redis.call('PEXPIRE', lock, ttl, 'GT')
  if record and string.sub(record, 1, 32) == owner then
    redis.call('PEXPIRE', holder, ttl, 'GT')
    -- Written, even if it changes nothing: whoever waits for replicas waits for what its own connection wrote last.
    redis.call('SET', holder, record, 'KEEPTTL')
    return string.match(record, '^%x+ (%d+) ')
  end
end

-- A place in the queue of one who is granted the lock in passing: the mark of the queue was lost, or the queue itself. It
-- would be handed the lock once more when it is gone. Who never waited has not named the keys, and makes no function of it:
-- that takes a thirtieth of the script.
local leave = queue and function()
  redis.pcall('ZREM', queue, owner)
  redis.pcall('HDEL', entries, owner)
end

-- From here on the lock key is set, unless somebody else holds it: what ends without a grant gives it up, and a command
-- that may fail is asked so that it does not end the script.
local taken = mine or not held
local time = redis.pcall('TIME')
if time.err then
  if taken then
    redis.call('DEL', lock)
  end
  return redis.error_reply(time.err .. " 'time'")
end
-- As a rule the digits are there, and to set them side by side is a twentieth of the script cheaper than to format them.
local now = #time[2] == 6 and time[1] .. time[2] or string.format('%s%06d', time[1], time[2])
local previous
if taken then
  local newest, reply = now, now
  if wanted and wanted ~= '1' then
    newest = string.format('%.0f', tonumber(now) + tonumber(wanted) - 1)
    reply = now .. ' ' .. wanted
  end
  -- Its end stays: to set it anew costs a twentieth of the script, and the busiest names are granted many times an hour.
  previous = redis.pcall('SET', last, newest, 'GET', 'KEEPTTL')
  if type(previous) == 'table' then
    redis.call('DEL', lock)
    return previous
  end
  -- No number: somebody waits, and it says so.
  local clock, before = tonumber(now), previous and (tonumber(previous) or math.huge) or 0
  if before < clock then
    -- Kept until the server's clock is a day past it, so that the clock alone makes the next token larger than a
    -- forgotten one. So the first token of each hour is kept for an hour more, and those after it as long as that. Of
    -- several in a row the last one counts: it may be of the next hour, whose first it is then.
    local latest = newest == now and clock or tonumber(newest)
    if before < latest - latest % 3600000000 then
      local kept = redis.pcall('SET', last, newest, 'PX', '90000000')
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
      return reply
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
      return reply
    end
  end
end

-- Only from here on the queue counts: somebody holds the name, or waits for it, or keeps it though its key vanished; or
-- the server's clock is behind the last token.
