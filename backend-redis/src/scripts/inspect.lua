-- Reads all that is known of a hold at one instant. Changes nothing.
--
-- Reply  nil if the name is free; else the value of the lock key, its ms to the end, the holder record, its ms to the end

-- include lib.lua

local function inspect(name)
  local held, record = call('GET', name.lock), call('GET', name.holder)
  if not held and not record then
    return false
  end
  return { held, call('PTTL', name.lock), record, call('PTTL', name.holder) }
end

return answer_each(inspect, 2, {})
