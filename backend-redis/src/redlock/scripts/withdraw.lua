-- Ends the hold of an owner on this node, or what one attempt of it has taken, and touches nothing of another owner or program.
--
--   * The name is free here at once; or it stays taken, without an owner, for `linger` ms from now.
--   * If the lock key has vanished, its holder's record ends here, so that the next owner need not wait for it.
--   * What a later attempt has is not touched.
--
-- KEYS   the lock, its holder record
-- ARGV   owner; attempt, or empty for any; linger in ms
-- Reply  1 ended, 0 nothing to end

-- include lib.lua
-- include node.lua

local function withdraw(name, owner, attempt, linger)
  local held, record = call('GET', name.lock), call('GET', name.holder)
  local is_recorded = owner_of(record) == owner
  local who, which = parts(held)
  if who ~= owner or (attempt ~= '' and which ~= attempt) then
    -- That of a later attempt keeps others out until its lease would have ended.
    if is_recorded and not held and (attempt == '' or string.match(record, '^%x+:(%d+):') == attempt) then
      call('DEL', name.holder)
    end
    return 0
  end
  if linger == '0' then
    call('DEL', name.lock)
    if is_recorded then
      call('DEL', name.holder)
    end
    return 1
  end
  linger_without_owner(name, is_recorded and record, linger)
  return 1
end

return answer_each(withdraw, NODE_KEYS, 1, 0)
