
-- The name is held: an owner that may wait joins the end of the queue, or renews its place.
local function busy(key)
  local left = redis.call('PTTL', key)
  if left == -2 then
    left = 0
  end
  if not channel then
    return left
  end
  -- Places are unique, and a new one is the largest, also if the server's clock went back.
  local tail = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
  local place = string.format('%.0f', math.max(tonumber(now), (tonumber(tail[2]) or 0) + 1))
  -- A silent waiter at the end is removed. Without this, dead waiters pile up while the lock is held for long, and the release
  -- that skips them delays the live ones.
  if tail[1] and tail[1] ~= owner then
    local entry = redis.pcall('HGET', entries, tail[1])
    local until_then = type(entry) == 'string' and tonumber(string.match(entry, '^%d+'))
    if until_then and until_then < tonumber(now) then
      redis.pcall('ZREM', queue, tail[1])
      redis.pcall('HDEL', entries, tail[1])
    end
  end
  local number, waiting = read_last(redis.call('GET', last))
  -- The mark `+` is set only if the record proves a lock of ours: another program knows its lock by its value.
  local record = held and string.sub(held, -1) ~= '+' and redis.call('GET', holder)
  local until_when = string.format('%.0f', tonumber(now) + 2000000)
  redis.call('HSET', entries, owner, until_when .. ' ' .. ttl .. ' ' .. channel .. ' ' .. description)
  -- The place is written last: an owner whose rights end before that would leave a place at each attempt, in a queue without
  -- an expiry.
  local step, done = 'pexpire', redis.pcall('PEXPIRE', entries, '60000')
  if type(done) ~= 'table' then
    step, done = 'zadd', redis.pcall('ZADD', queue, 'NX', place, owner)
  end
  if type(done) == 'table' then
    redis.pcall('HDEL', entries, owner)
    return redis.error_reply(done.err .. " '" .. step .. "'")
  end
  redis.call('PEXPIRE', queue, '60000')
  if done == 0 then
    place = redis.call('ZSCORE', queue, owner)
  end
  if not waiting then
    write_last(string.format('%.0f', number), now, true)
  end
  if record and string.sub(record, 1, 33) == held .. ' ' then
    redis.call('SET', lock, held .. '+', 'KEEPTTL')
  end
  return { left, tonumber(place) }
end

if not taken then
  return busy(lock)
end

-- The lock key was set by this call, or by an earlier one for this owner. Every way out writes the last token again.
local number, waiting = read_last(previous)
local function give_back(reply)
  write_last(string.format('%.0f', number), now, waiting)
  redis.call('DEL', lock)
  return reply
end
if not queue then
  if mine then
    -- An earlier call set it, and its record was lost. It stays, because a deleted lock key would be free for the waiters.
    write_last(string.format('%.0f', number), now, waiting)
    return false
  end
  return give_back(false)
end
local token = token_after(number, now)
if not token then
  return give_back(redis.error_reply('TOKENS used up'))
end
local record = redis.pcall('GET', holder)
if type(record) == 'table' then
  return give_back(record)
end
if record and string.sub(record, 1, 32) ~= owner then
  -- The lock key was deleted or evicted, and its holder does not know it yet.
  give_back()
  return busy(holder)
end

if waiting and not held and not record then
  local first, lease, words = take_first(token, now, owner)
  if first and first ~= owner then
    grant(first, lease, words, token, now, true)
    return busy(lock)
  end
  if not first and lease then
    -- An error, or more waiters to look at: the next attempt does that.
    if type(lease) == 'table' then
      return give_back(lease)
    end
    give_back()
    return busy(lock)
  end
  waiting = first ~= nil
end
leave()
grant(owner, ttl, description, token, now, waiting)
return token
