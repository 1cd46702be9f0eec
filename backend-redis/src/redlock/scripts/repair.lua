-- Sets a lock on this node that its owner holds on most others, because the node has come back without it or was away when it was
-- taken.
--
--   * Only if the name is free here, and no record keeps it for another owner.
--   * The last token of the name is afterwards at least that of the grant.
--
-- KEYS   the lock, its holder record, the last token of the name
-- ARGV   the lock's value, the token of the grant, ttl in ms, the rest of the record
-- Reply  1 set, 0 nothing done

-- include lib.lua
-- include node.lua

local function repair(name, value, token, ttl, rest)
  local record = call('GET', name.holder)
  if call('GET', name.lock) or (record and owner_of(record) ~= parts(value)) then
    return 0
  end
  if tonumber(last_token(name)) < tonumber(token) then
    write_last_token(name.token, tonumber(token), time(), A_DAY)
  end
  call('SET', name.holder, value .. ' ' .. token .. ' ' .. rest, 'PX', ttl)
  call('SET', name.lock, value, 'PX', ttl)
  return 1
end

return answer_each(repair, NODE_KEYS, 1, 0)
