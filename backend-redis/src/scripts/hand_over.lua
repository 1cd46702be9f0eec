
-- Handing over: to the first in the queue goes what another would find free.
--
-- That somebody may be waiting is marked where it costs nothing to see: by ` queue` behind the last token of the name,
-- which whoever takes a free name reads anyhow, and by `+` behind the owner in the lock key, which whoever ends a hold
-- reads anyhow. A mark without a queue costs its finder one look. A queue without a mark, should the token be evicted or
-- another program hold the lock, costs its waiters the time to their next heartbeat, and that sets the mark again.

-- What the last token of the name says: a number, and whether somebody may be waiting.
local function read_last(text)
  if not text then
    return 0, false
  end
  local waiting = string.sub(text, -6) == ' queue'
  local number = tonumber(waiting and string.sub(text, 1, -7) or text) or 0
  return number == number and number or 0, waiting
end

-- The token after `number`, or nothing if they are used up: a double counts by one up to 2^53 - 1.
local function token_after(number, now)
  if number < tonumber(now) then
    return now
  end
  if number < 9007199254740991 then
    return string.format('%.0f', number + 1)
  end
end

-- How many tokens in a row are granted with this one to who can use `wanted`: all, if the clock has passed the last token
-- of the name. So a name whose tokens are used faster than the clock counts is not led away from it.
local function in_a_row(token, now, wanted)
  return token == now and tonumber(wanted) or 1
end

-- The token, and behind it their number if there are several.
local function told(token, tokens)
  return tokens > 1 and token .. ' ' .. string.format('%.0f', tokens) or token
end

local function write_last(token, now, waiting)
  -- A day, and an hour in which nobody sets it anew: see `acquire.lua`. No more than 300 years, should somebody have
  -- written nonsense there: the server must not refuse the expiry.
  local ahead = math.max(0, (tonumber(token) - tonumber(now)) / 1000)
  local keep = string.format('%.0f', math.min(90000000 + ahead, 9467280000000))
  redis.call('SET', last, token .. (waiting and ' queue' or ''), 'PX', keep)
end

local function grant(to, lease, words, token, tokens, now, waiting)
  redis.call('SET', lock, to .. (waiting and '+' or ''), 'PX', lease)
  redis.call('SET', holder, to .. ' ' .. token .. ' ' .. now .. ' ' .. words, 'PX', lease)
  if tokens > 1 then
    token = string.format('%.0f', tonumber(token) + tokens - 1)
  end
  write_last(token, now, waiting)
end

-- Tells who listens on this very server, and says how many these are. A replica is not told: who still listens there, because
-- it was the primary until now, was not counted, and is passed over. Servers that know of no such choice refuse it, and
-- the message is told all the same.
local function tell(channel, message)
  pcall(redis.set_repl, redis.REPL_NONE)
  local heard = redis.pcall('PUBLISH', channel, message)
  pcall(redis.set_repl, redis.REPL_ALL)
  return heard
end

-- Takes the first out of the queue who still waits and can be told of a grant with this token, and tells it: `asking`
-- needs no telling. Who is passed over is out of the queue:
--   * one whose heartbeats have stopped for two seconds;
--   * one whose process is gone: nobody listens on its channel.
-- No more than 256 are passed over in one call, less than a millisecond's work, so that a crowd that died together holds up
-- nobody's commands.
-- Returns of the one that it took: owner, lease, description, and how many tokens in a row are its; or nothing, and
-- whether there may be more, or an error.
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
      local until_when, lease, wanted, where, words = string.match(entry, '^(%d+) (%d+)%*?(%d*) (%S+) (.*)$')
      if until_when and tonumber(until_when) >= tonumber(now) then
        local tokens = in_a_row(token, now, wanted)
        local heard = who == asking or where == '-' or
          tell(where, who .. ' ' .. place .. ' ' .. told(token, tokens))
        -- Not permitted to tell: then its heartbeat finds the grant.
        if heard == true or type(heard) == 'table' or heard > 0 then
          return who, lease, words, tokens
        end
      end
    end
  end
  return nil, true
end
