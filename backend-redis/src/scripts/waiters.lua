-- Reads the queue of a name, its first waiter first. Changes nothing.
--
-- Reply  the server's clock in µs; then for each waiter its owner, its place in µs of that clock, and its entry

-- include lib.lua

local function waiters(name)
  local reply = { digits(time()) }
  local queue = call('ZRANGE', name.queue, 0, -1, 'WITHSCORES')
  for i = 1, #queue, 2 do
    reply[#reply + 1] = { queue[i], queue[i + 1], call('HGET', name.owners, queue[i]) }
  end
  return reply
end

return answer_each(waiters, KEY_ORDER, 1, 0)
