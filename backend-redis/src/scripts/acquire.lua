-- Grants a name to an owner if it is free, or puts the owner into the queue.
--
--   * One owner at a time, also towards programs that know only `SET key value NX PX`.
--   * The owner that holds the name and asks again gets the same token, and a lease of at least its ttl from now.
--   * A free name with a queue goes to the first waiter, whichever owner asks.
--   * If the lock key has vanished, no other owner gets the name before the lease of its holder would have ended.
--
-- KEYS   of each claim: the lock, its holder record, its last token, its queue, the entries of the waiters
-- ARGV   of each claim: owner, ttl in ms, description of the holder, channel of the owner's process: `-` if it hears no
--        messages, empty if the owner does not wait
-- Reply  of each claim: the token; or { ms until the present lease ends or -1, place in the queue if the owner waits }

-- The usual case, three commands that test and set: nobody holds the name or waits for it, and the clock is past its last
-- token. Nil if anything is in the way, and then nothing is changed.
local now = redis.call('TIME')
now = now[1] .. string.sub('00000' .. now[2], -6)
local clock = tonumber(now)
local function grant_if_free(lock, holder, token, owner, ttl, description)
  if redis.pcall('SET', lock, owner, 'NX', 'GET', 'PX', ttl) then
    return nil
  end
  local last = redis.pcall('SET', token, now, 'GET', 'KEEPTTL')
  local number = last and tonumber(last) or not last and 0
  local record = owner .. ' ' .. now .. ' ' .. now .. ' ' .. description
  if number and number < clock and not redis.pcall('SET', holder, record, 'NX', 'GET', 'PX', ttl) then
    -- The end of the key is set once in an hour, and then for a day and an hour.
    if number < clock - clock % 3600000000 then
      redis.call('SET', token, now, 'PX', '90000000')
    end
    return now
  end
  redis.pcall('DEL', lock)
  if type(last) == 'string' then
    redis.pcall('SET', token, last, 'KEEPTTL')
  elseif not last then
    redis.pcall('DEL', token)
  end
end

local answers, queues = {}, {}
for claim = 1, #KEYS / 5 do
  queues[2 * claim - 1], queues[2 * claim] = KEYS[5 * claim - 1], KEYS[5 * claim]
end
if redis.call('EXISTS', unpack(queues)) == 0 then
  for claim = 1, #KEYS / 5 do
    local key, arg = 5 * claim, 4 * claim
    answers[claim] = grant_if_free(KEYS[key - 4], KEYS[key - 3], KEYS[key - 2], ARGV[arg - 3], ARGV[arg - 2], ARGV[arg - 1])
  end
  if #KEYS == 5 and answers[1] then
    return answers[1]
  end
end

-- include lib.lua

local function acquire(name, owner, ttl, description, channel)
  local held, record = call('GET', name.lock), call('GET', name.holder)
  local is_recorded = is_record_of(owner, record)
  if held == owner and is_recorded then
    -- The reply to an earlier attempt was lost, or the message of a hand-over.
    extend(name.lock, ttl)
    extend(name.holder, ttl)
    return string.match(record, '^%S+ (%d+)')
  end
  local blocker = held and held ~= owner and name.lock
  if not blocker and record and not is_recorded then
    -- The lock key was deleted or evicted, and its holder does not know it yet.
    blocker = name.holder
  end
  if not blocker then
    local token, first, more = next_token(name, clock), nil, false
    if not held and not is_recorded then
      first, more = take_first_waiter(name, token, clock, owner)
    end
    if not more and (not first or first.owner == owner) then
      grant(name, owner, ttl, description, token, clock)
      -- Without an error, because the claim is granted.
      pcall(leave_queue, name, owner)
      return digits(token)
    end
    if first then
      grant(name, first.owner, first.ttl, first.description, token, clock)
    end
    blocker = name.lock
  end
  local left = math.max(call('PTTL', blocker), -1)
  return channel == '' and { left } or { left, join_queue(name, owner, ttl, channel, description, clock) }
end

return answer_each(acquire, 5, answers)
