-- Grants the name to ARGV[1] for ARGV[2] ms, if it is free. Four commands when it is.
--
-- Guarantees:
--   * one owner at a time, also towards programs that know only `SET key value NX PX`;
--   * the token is larger than every one given for this name before: max(last + 1, server clock in µs);
--   * asked again by the owner that holds it: the same token, and a lease of at least ARGV[2] ms from now;
--   * a lock key that vanished is not granted to another owner before the lease of its holder would have ended;
--   * an error leaves nothing behind.
--
-- KEYS  the lock, its holder record, the last token of the name
-- ARGV  owner in 32 hexadecimal digits, lease in ms, description of the holder
-- Reply the token as text if granted; if not, the ms until the present lease ends, -1 if it has no end

local lock, holder, last = KEYS[1], KEYS[2], KEYS[3]
local owner, ttl, description = ARGV[1], ARGV[2], ARGV[3]

local held = redis.call('SET', lock, owner, 'NX', 'GET', 'PX', ttl)
if held and held ~= owner then
  return redis.call('PTTL', lock)
end
if held then
  -- The reply to an earlier attempt was lost.
  local record = redis.call('GET', holder)
  redis.call('PEXPIRE', lock, ttl, 'GT')
  if record and string.sub(record, 1, 32) == owner then
    redis.call('PEXPIRE', holder, ttl, 'GT')
    return string.match(record, '^%x+ (%d+) ')
  end
end

-- From here on the lock key is set: what ends without a grant gives it up, and a command that may fail is asked so
-- that it does not end the script.
local function give_up(reply)
  redis.call('DEL', lock)
  return reply
end

local time = redis.pcall('TIME')
if time.err then
  return give_up(redis.error_reply(time.err .. " 'time'"))
end
local now = string.format('%s%06d', time[1], time[2])
local token = now

-- Kept until the server's clock is a day past it, so that the clock alone makes the next token larger than a forgotten one.
local previous = redis.pcall('SET', last, token, 'GET', 'PX', '86400000')
if type(previous) == 'table' then
  return give_up(previous)
end
if previous and (tonumber(previous) or 0) >= tonumber(now) then
  -- The clock went back, or is not past the microsecond of the last grant.
  -- No more than 300 years, should somebody have written nonsense there: the server must not refuse the expiry.
  local keep = string.format('%.0f', math.min(86400000 + (previous - now) / 1000, 9467280000000))
  -- A double counts by one up to 2^53 - 1.
  if tonumber(previous) >= 9007199254740991 then
    redis.call('SET', last, previous, 'PX', keep)
    return give_up(redis.error_reply('TOKENS used up'))
  end
  token = string.format('%.0f', previous + 1)
  redis.call('SET', last, token, 'PX', keep)
end

local record = owner .. ' ' .. token .. ' ' .. now .. ' ' .. description
local earlier = redis.pcall('SET', holder, record, 'NX', 'GET', 'PX', ttl)
if earlier then
  if type(earlier) == 'table' then
    return give_up(earlier)
  end
  -- The lock key is gone, deleted or evicted, and its holder has not been told yet.
  if string.sub(earlier, 1, 32) ~= owner then
    return give_up(redis.call('PTTL', holder))
  end
  redis.call('SET', holder, record, 'PX', ttl)
end
return token
