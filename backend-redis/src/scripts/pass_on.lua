
-- The hold has ended: the lock goes to the first live waiter, or is free if there is none. An error does not stop the release:
-- the waiters are served at their next heartbeat then.
local previous, time = redis.pcall('GET', last), redis.pcall('TIME')
if type(previous) ~= 'table' and not time.err then
  local number = read_last(previous)
  local now = string.format('%s%06d', time[1], time[2])
  local token = token_after(number, now)
  if token then
    local first, lease, words = take_first(token, now)
    if first then
      grant(first, lease, words, token, now, true)
      return handed_over
    end
  end
end
redis.call('DEL', lock, holder)
return free
