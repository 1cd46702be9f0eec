-- Grants a name to an owner if it is free, or puts the owner into the queue.
--
--   * One exclusive owner at a time, or readers, also towards programs that know only `SET key value NX PX`.
--   * The owner that holds the name and asks again gets the same token, and a lease of at least its ttl from now.
--   * A name with a queue goes to the first waiters, whichever owner asks: no reader passes a waiting writer.
--   * If the lock key has vanished, no other owner gets the name before the lease of its holder would have ended.
--
-- KEYS   of each claim: the lock, its holder record, its last token, its queue, the entries of waiters and readers, the ends
--        of the readers
-- ARGV   of each claim: owner, ttl in ms, description of the holder, channel of the owner's process: `-` if it hears no
--        messages, empty if the owner does not wait; mode: exclusive or shared
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

local answers, others = {}, {}
for key = 6, #KEYS, 6 do
  others[#others + 1], others[#others + 2], others[#others + 3] = KEYS[key - 2], KEYS[key - 1], KEYS[key]
end
if redis.call('EXISTS', unpack(others)) == 0 then
  for claim = 1, #KEYS / 6 do
    local key, arg = 6 * claim, 5 * claim
    if ARGV[arg] == 'exclusive' then
      answers[claim] =
        grant_if_free(KEYS[key - 5], KEYS[key - 4], KEYS[key - 3], ARGV[arg - 4], ARGV[arg - 3], ARGV[arg - 2])
    end
  end
  if #KEYS == 6 and answers[1] then
    return answers[1]
  end
end

-- include lib.lua
-- include queue.lua

local function acquire(name, owner, ttl, description, channel, mode)
  local held, record = call('GET', name.lock), call('GET', name.holder)
  local is_recorded = is_record_of(owner, record)
  if held == owner and is_recorded then
    -- The reply to an earlier attempt was lost, or the message of a hand-over.
    extend(name.lock, ttl)
    extend(name.holder, ttl)
    return string.match(record, '^%S+ (%d+)')
  end
  local claim = { owner = owner, ttl = ttl, description = description, channel = channel, mode = mode }
  local blocker = held and held ~= owner and held ~= 'shared' and name.lock
  if not blocker and record and not is_recorded then
    -- The lock key was deleted or evicted, and its holder does not know it yet.
    blocker = name.holder
  end
  if not blocker then
    local reader = held == 'shared' and extend_reader(name, owner, ttl, clock)
    if reader then
      return string.match(reader, '^%S+ (%d+)')
    end
    local state, token = 'free', nil
    if held ~= owner and not is_recorded then
      state, token = serve_queue(name, clock, last_reader_end(name, clock), owner)
    end
    if not token and (state == 'free' or (state == 'shared' and mode == 'shared')) then
      token = next_token(name, clock)
      grant(name, claim, token, clock)
      if mode ~= 'shared' then
        -- It may have a place or an entry in a queue that was damaged. Without an error, because the claim is granted.
        pcall(leave_queue, name, owner)
      end
    end
    if token then
      return digits(token)
    end
    blocker = call('EXISTS', name.lock) == 1 and name.lock or name.shared
  end
  local left = math.max(call('PTTL', blocker), -1)
  return channel == '' and { left } or { left, join_queue(name, claim, clock) }
end

return answer_each(acquire, ALL_KEYS, answers)
