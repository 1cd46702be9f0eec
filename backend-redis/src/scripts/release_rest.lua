
-- The rest is for a name that its owner does not hold, that has a queue, or that lingers.
local last, queue, entries = KEYS[3], KEYS[4], KEYS[5]
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
  return redis.error_reply(held.err .. " 'get'")
end
if held ~= owner and held ~= owner .. '+' then
  local refusal = refusal_of_replica(lock)
  if refusal then
    return refusal
  end
  local record = redis.call('GET', holder)
  if record and string.sub(record, 1, 32) == owner then
    redis.call('DEL', holder)
  end
  if queue then
    redis.call('ZREM', queue, owner)
    redis.call('HDEL', entries, owner)
  end
  return 0
end
if linger ~= '0' then
  -- The record stays readable, with `released` in the place of the owner, which is no owner id. Waiters find the free name at
  -- a heartbeat.
  local record = redis.call('GET', holder)
  -- A write that needs no memory comes first: a server whose memory is full refuses only the first write of a script.
  redis.call('PEXPIRE', lock, linger)
  redis.call('SET', lock, 'released', 'PX', linger)
  if record then
    redis.call('SET', holder, 'released' .. string.sub(record, 33), 'PX', linger)
  end
  return 1
end
if not queue then
  return false
end
local handed_over, free = 2, 1
