
-- The hold has ended: the lock goes to the first who waits and can be told, and if there is none, it is free. A waiter
-- that cannot be served now, whatever the reason, is served by its next heartbeat: the release is done in any case.
local previous, time = redis.pcall('GET', last), redis.pcall('TIME')
if type(previous) ~= 'table' and not time.err then
  local number = read_last(previous)
  local now = string.format('%s%06d', time[1], time[2])
  local token = token_after(number, now)
  if token then
    local first, lease, words, tokens = take_first(token, now)
    if first then
      grant(first, lease, words, token, tokens, now, true)
      return handed_over
    end
  end
end
redis.call('DEL', lock, holder)
return free
