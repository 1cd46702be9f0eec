-- What the scripts share: claims, the clock, tokens, the holder record, the queue of waiters. Included where a script says so.

-- As `redis.call`, but an error names the command, which Redis 7.0 does not do for a missing right.
local function call(command, ...)
  local reply = redis.pcall(command, ...)
  if type(reply) == 'table' and reply.err then
    error(reply.err .. " '" .. command .. "'", 0)
  end
  return reply
end

-- Calls `command` for each claim that has no answer yet, with the keys of its name and its arguments. An error is the answer
-- for its claim alone, and says that nothing was written for it.
local function answer_each(command, keys_per_name, answers)
  local claims = #KEYS / keys_per_name
  local args = #ARGV / claims
  for claim = 1, claims do
    if not answers[claim] then
      local lock, holder, token, queue, waiters = unpack(KEYS, keys_per_name * (claim - 1) + 1, keys_per_name * claim)
      local name = { lock = lock, holder = holder, token = token, queue = queue, waiters = waiters }
      local done, answer = pcall(command, name, unpack(ARGV, args * (claim - 1) + 1, args * claim))
      if not done then
        answer = redis.error_reply(answer)
      end
      answers[claim] = answer
    end
  end
  if claims == 1 then
    return answers[1]
  end
  return answers
end

-- The server's clock in microseconds, as text and as a number. Numbers are not joined with `..`, which would round them.
local function time()
  local now = call('TIME')
  local text = now[1] .. string.sub('00000' .. now[2], -6)
  return text, tonumber(text)
end

local function digits(number)
  return string.format('%.0f', number)
end

-- max(last + 1, now): larger than every earlier token of the name, also if the clock went back. Up to 2^53 - 1, because a
-- double counts by one up to there. A last token that is no number is another program's, and counts for nothing.
local function next_token(name, now)
  local last = tonumber(call('GET', name.token) or nil) or 0
  if last < now or last ~= last then
    return now
  end
  if last >= 9007199254740991 then
    error('TOKENS used up', 0)
  end
  return last + 1
end

-- The value of the lock key, which is the owner. Data of another kind is another program's lock.
local function lock_value(name)
  local value = redis.pcall('GET', name.lock)
  if type(value) ~= 'table' then
    return value
  end
  return string.find(value.err, 'WRONGTYPE', 1, true) and 'foreign' or error(value.err .. " 'GET'", 0)
end

-- The holder record is `owner token granted_at description`.
local function is_record_of(owner, record)
  return record and string.match(record, '^%S+') == owner
end

-- Makes `owner` the holder. All that may be refused is refused with the first write.
local function grant(name, owner, ttl, description, token, now)
  call('SET', name.lock, owner, 'PX', ttl)
  call('SET', name.holder, owner .. ' ' .. digits(token) .. ' ' .. digits(now) .. ' ' .. description, 'PX', ttl)
  -- Kept until the clock is a day and an hour past it, so that the clock alone makes the next token larger than a forgotten
  -- one. At most 300 years: the server refuses a larger expiry, and another program may have written any number here.
  local ahead = math.floor((token - now) / 1000)
  call('SET', name.token, digits(token), 'PX', math.min(90000000 + ahead, 9467280000000))
end

-- Makes a key last at least `ttl` ms from now, and never less than it did. A key that lost its end by PERSIST gets one again.
-- An end that stays is written again, because `WAIT` waits for the last write of its own connection.
local function extend(key, ttl)
  if call('PEXPIRE', key, ttl, 'GT') == 0 then
    local left = call('PTTL', key)
    if left > -2 then
      call('PEXPIRE', key, left > -1 and left or ttl)
    end
  end
end

local function leave_queue(name, owner)
  call('ZREM', name.queue, owner)
  call('HDEL', name.waiters, owner)
end

-- The waiter's entry is `keeps_place_until ttl channel description`. Nil if it is gone, or had no heartbeat for two seconds.
local function live_waiter(name, owner, now)
  local entry = call('HGET', name.waiters, owner)
  local keeps_until, ttl, channel, description = string.match(entry or '', '^(%d+) (%d+) (%S+) (.*)$')
  if keeps_until and tonumber(keeps_until) >= now then
    return { owner = owner, ttl = ttl, channel = channel, description = description }
  end
end

-- Puts the owner at the end of the queue, or keeps its place for two more seconds. Returns the place.
local function join_queue(name, owner, ttl, channel, description, now)
  local last, last_place = unpack(call('ZRANGE', name.queue, -1, -1, 'WITHSCORES'))
  -- Dead waiters would pile up while the lock is held for long, and delay the release that skips them.
  if last and last ~= owner and not live_waiter(name, last, now) then
    leave_queue(name, last)
  end
  -- Places are unique, and a new one is the largest, also if the server's clock went back.
  local place = math.max(now, (tonumber(last_place) or 0) + 1)
  local joined, failure = pcall(function()
    call('HSET', name.waiters, owner, digits(now + 2000000) .. ' ' .. ttl .. ' ' .. channel .. ' ' .. description)
    call('PEXPIRE', name.waiters, 60000)
    call('ZADD', name.queue, 'NX', digits(place), owner)
    call('PEXPIRE', name.queue, 60000)
  end)
  if not joined then
    call('HDEL', name.waiters, owner)
    error(failure, 0)
  end
  return tonumber(call('ZSCORE', name.queue, owner))
end

-- Tells a waiter of its grant. False if its process is gone: nothing listens on its channel. The message stays on this server:
-- a process that still listens on a former primary is not counted. A refusal, by the user's rights, is no sign of death; the
-- heartbeat of the waiter finds the grant.
local function notify(waiter, place, token)
  pcall(redis.set_repl, redis.REPL_NONE)
  local listeners = redis.pcall('PUBLISH', waiter.channel, waiter.owner .. ' ' .. place .. ' ' .. digits(token))
  pcall(redis.set_repl, redis.REPL_ALL)
  return type(listeners) == 'table' or listeners > 0
end

-- Takes the first live waiter and the dead ones in front of it out of the queue, and tells it of its grant with this token;
-- `asking`, the caller, needs no message. The second result is true if more may follow: one call removes at most 256 dead
-- waiters, so that a crowd that died together does not delay the commands of others.
local function take_first_waiter(name, token, now, asking)
  for _ = 1, 256 do
    local owner, place = unpack(call('ZRANGE', name.queue, 0, 0, 'WITHSCORES'))
    if not owner then
      return nil, false
    end
    local waiter = live_waiter(name, owner, now)
    leave_queue(name, owner)
    if waiter and (owner == asking or waiter.channel == '-' or notify(waiter, place, token)) then
      return waiter, false
    end
  end
  return nil, true
end

-- A hold has ended: the lock goes to the first live waiter, or is free. What fails here stops no release: the waiters are
-- served at their next heartbeat then.
local function pass_on(name)
  local _, is_passed_on = pcall(function()
    if not call('ZRANGE', name.queue, 0, 0)[1] then
      return false
    end
    local _, now = time()
    local token = next_token(name, now)
    local waiter = take_first_waiter(name, token, now)
    if waiter then
      grant(name, waiter.owner, waiter.ttl, waiter.description, token, now)
    end
    return waiter ~= nil
  end)
  if is_passed_on ~= true then
    call('DEL', name.lock, name.holder)
  end
end
