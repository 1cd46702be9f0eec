-- Reads who waits for a name, the first in the queue first. Changes nothing.
--
-- KEYS  its queue, the entries of those in the queue
-- Reply the server's clock in µs; then for each owner in the queue its place, in µs of that clock, and its entry

local time = redis.call('TIME')
local reply = { string.format('%s%06d', time[1], time[2]) }
local places = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #places, 2 do
  local entry = redis.call('HGET', KEYS[2], places[i])
  reply[#reply + 1] = { places[i], places[i + 1], entry }
end
return reply
