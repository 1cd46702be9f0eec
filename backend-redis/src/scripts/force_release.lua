-- Ends the holds of any owner or program, or only the grant with this token. The lock goes to the first waiters, or is free.
-- The last token of the name stays, so that the next one is larger.
--
-- KEYS   as of `acquire_in_turn.lua`; the lock and its holder record alone on a node of `redlock://`, which has no readers and no queue
-- ARGV   a token, or empty for any
-- Reply  that of `inspect.lua` of the holds that were ended; nil if there was none

-- include lib.lua
-- include queue.lua

local function force_release(name, token)
  local now, held, record = time(), call('GET', name.lock), call('GET', name.holder)
  local reply = { false, -2, false, -2 }
  local ended = name.shared and add_readers(name, reply, token) or {}
  for _, owner in ipairs(ended) do
    call('ZREM', name.shared, owner)
    call('HDEL', name.owners, owner)
  end
  -- A record beside another program's lock is that of an earlier grant.
  local is_present = record and (not held or is_record_of(held, record))
  local is_meant = token == '' or (is_present and string.match(record, '^%S+ (%d+)') == token)
  if is_meant and not (held == 'shared' and ended[1]) and (held or record) then
    reply[1], reply[2], reply[3], reply[4] = held, call('PTTL', name.lock), record, call('PTTL', name.holder)
  elseif not ended[1] then
    refuse_on_replica(name.lock)
    return false
  end
  if not name.shared then
    call('DEL', name.lock, name.holder)
    return reply
  end
  -- Another program may have taken the lock key while readers hold.
  if is_meant or not held or held == 'shared' then
    hand_over_or_free(name, now, purge_ended_readers(name, now))
  end
  return reply
end

return answer_each(force_release, KEY_ORDER, 1, 0)
