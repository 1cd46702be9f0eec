
-- One who may wait joins the queue at its end, or shows that it is still there.
local function busy(key)
  local left = redis.call('PTTL', key)
  if left == -2 then
    left = 0
  end
  if not channel then
    return left
  end
  -- After all others, also if the server's clock went back; and no place comes twice.
  local tail = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
  local place = string.format('%.0f', math.max(tonumber(now), (tonumber(tail[2]) or 0) + 1))
  -- Who stands last and is silent goes: as long as somebody waits and nobody releases, the queue would grow by each that died,
  -- and they would be passed over when all wait for that.
  if tail[1] and tail[1] ~= owner then
    local entry = redis.pcall('HGET', entries, tail[1])
    local until_then = type(entry) == 'string' and tonumber(string.match(entry, '^%d+'))
    if until_then and until_then < tonumber(now) then
      redis.pcall('ZREM', queue, tail[1])
      redis.pcall('HDEL', entries, tail[1])
    end
  end
  local number, waiting = read_last(redis.call('GET', last))
  -- Only if the record says that it is a lock of ours: another program knows its lock by its value.
  local record = held and string.sub(held, -1) ~= '+' and redis.call('GET', holder)
  local until_when = string.format('%.0f', tonumber(now) + 2000000)
  local lease = wanted == '1' and ttl or ttl .. '*' .. wanted
  redis.call('HSET', entries, owner, until_when .. ' ' .. lease .. ' ' .. channel .. ' ' .. description)
  -- The place comes when all else is permitted: one who is refused would leave a place at each attempt, and a queue that
  -- has no end.
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

-- The lock key was set by this very call, or by an earlier one for this owner; the last token is to be written anew in any case.
local number, waiting = read_last(previous)
local function give_back(reply)
  write_last(string.format('%.0f', number), now, waiting)
  redis.call('DEL', lock)
  return reply
end
if not queue then
  if mine then
    -- Set by an earlier call, and to be granted anew: its record was lost. To whoever waits it would be free.
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
  -- The lock key is gone, deleted or evicted, and its holder has not been told yet.
  give_back()
  return busy(holder)
end

if waiting and not held and not record then
  local first, lease, words, tokens = take_first(token, now, owner)
  if first and first ~= owner then
    grant(first, lease, words, token, tokens, now, true)
    return busy(lock)
  end
  if not first and lease then
    -- An error, or more of them to look at: whoever asks next does.
    if type(lease) == 'table' then
      return give_back(lease)
    end
    give_back()
    return busy(lock)
  end
  waiting = first ~= nil
end
leave()
local tokens = in_a_row(token, now, wanted)
grant(owner, ttl, description, token, tokens, now, waiting)
return told(token, tokens)
