
-- Hand-over: a lock that would be free goes to the first waiter in the queue.
--
-- Two marks say that the queue may not be empty, in values that are read anyhow: ` queue` behind the last token of the name,
-- which every grant of a free name reads, and `+` behind the owner in the lock key, which every release reads. A mark without
-- a queue costs one look at the queue. A queue without a mark (the token was evicted, or another program held the lock) costs
-- its waiters the time to their next heartbeat, which sets the mark again.

-- Reads the last token of the name: the number, and true if the queue may not be empty.
local function read_last(text)
  if not text then
    return 0, false
  end
  local waiting = string.sub(text, -6) == ' queue'
  local number = tonumber(waiting and string.sub(text, 1, -7) or text) or 0
  return number == number and number or 0, waiting
end

-- The token after `number`: max(number + 1, now). Nil above 2^53 - 1, up to which a double counts by one.
local function token_after(number, now)
  if number < tonumber(now) then
    return now
  end
  if number < 9007199254740991 then
    return string.format('%.0f', number + 1)
  end
end

local function write_last(token, now, waiting)
  -- A day, and the hour in which grants do not set it again: see `acquire.lua`. At most 300 years, because the server refuses
  -- a larger expiry, and another program may have written any number here.
  local ahead = math.max(0, (tonumber(token) - tonumber(now)) / 1000)
  local keep = string.format('%.0f', math.min(90000000 + ahead, 9467280000000))
  redis.call('SET', last, token .. (waiting and ' queue' or ''), 'PX', keep)
end

local function grant(to, lease, words, token, now, waiting)
  redis.call('SET', lock, to .. (waiting and '+' or ''), 'PX', lease)
  redis.call('SET', holder, to .. ' ' .. token .. ' ' .. now .. ' ' .. words, 'PX', lease)
  write_last(token, now, waiting)
end

-- Publishes to the listeners on this very server, and returns their number. The message is not replicated: a client that still
-- listens on a replica, the primary until now, is not in this number, and its waiter is skipped. Servers without `set_repl`
-- refuse that call, and publish all the same.
local function publish(channel, message)
  pcall(redis.set_repl, redis.REPL_NONE)
  local heard = redis.pcall('PUBLISH', channel, message)
  pcall(redis.set_repl, redis.REPL_ALL)
  return heard
end

-- Removes the first live waiter from the queue and publishes its grant with this token; `asking`, the caller, needs no
-- message. Dead waiters in front of it are removed too:
--   * a waiter without a heartbeat for two seconds;
--   * a waiter whose process is gone: its channel has no listener.
-- One call removes at most 256 of them, less than a millisecond's work, so that many waiters that died together do not delay
-- the commands of others.
-- Returns the owner, lease and description of that waiter; or nil, and true if more may follow, or an error.
local function take_first(token, now, asking)
  for _ = 1, 256 do
    local head = redis.pcall('ZPOPMIN', queue)
    if head.err then
      return nil, redis.error_reply(head.err .. " 'zpopmin'")
    end
    local who, place = head[1], head[2]
    if not who then
      return nil, false
    end
    local entry = redis.pcall('HGET', entries, who)
    redis.pcall('HDEL', entries, who)
    if type(entry) == 'string' then
      local until_when, lease, where, words = string.match(entry, '^(%d+) (%d+) (%S+) (.*)$')
      if until_when and tonumber(until_when) >= tonumber(now) then
        local heard = who == asking or where == '-' or publish(where, who .. ' ' .. place .. ' ' .. token)
        -- A table is a refusal, by the user's rights: then the heartbeat of the waiter finds the grant.
        if heard == true or type(heard) == 'table' or heard > 0 then
          return who, lease, words
        end
      end
    end
  end
  return nil, true
end
