-- Reads all that is known of the holds of a name at one instant. Changes nothing.
--
-- KEYS   as of `acquire_in_turn.lua`; the lock and its holder record alone on a node of `redlock://`, which has no readers
-- Reply  nil if the name is free; else the value of the lock key, its ms to the end, the holder record, its ms to the end; and
--        for each reader its ms to the end and its record

-- include lib.lua

local function inspect(name)
  local held, record = call('GET', name.lock), call('GET', name.holder)
  local reply = { held, call('PTTL', name.lock), record, call('PTTL', name.holder) }
  if name.shared then
    add_readers(name, reply)
  end
  return (held or record or reply[5]) and reply
end

return answer_each(inspect, KEY_ORDER, 1, 0)
