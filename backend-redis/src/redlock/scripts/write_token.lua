-- Writes the token of a grant on this node, if the node still holds the name for it.
--
--   * Only where the lock is that of this very attempt: one whose lease has ended here, or that was taken back, writes nothing,
--     however late it comes. Also where a renewal was quicker on a node that is late: then there is no record yet.
--   * Only a token larger than the last one: so a node writes each token once, for one owner.
--   * The lease lasts at least `ttl` ms from now, and the record of the holder as long.
--
-- KEYS   the lock, its holder record, the last token of the name
-- ARGV   the lock's value, the token, ttl in ms, description of the holder
-- Reply  1 written, 0 nothing done

-- include lib.lua
-- include node.lua

local function write_token(name, value, token, ttl, description)
  local held, now = call('GET', name.lock), time()
  if held ~= value and (not is_renewed(held, value) or owner_of(call('GET', name.holder)) == parts(value)) then
    return 0
  end
  if tonumber(last_token(name)) >= tonumber(token) then
    return 0
  end
  write_last_token(name.token, tonumber(token), now, A_DAY)
  call('SET', name.holder, held .. ' ' .. token .. ' ' .. digits(now) .. ' ' .. description, 'PX', ttl)
  call('PEXPIRE', name.lock, ttl, 'GT')
  return 1
end

return answer_each(write_token, NODE_KEYS, 1, 0)
