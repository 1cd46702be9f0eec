-- Ends the hold of any owner or program, or only the grant with this token. The lock goes to the first waiter, or is free.
-- The last token of the name stays, so that the next one is larger.
--
-- ARGV   a token, or empty for any
-- Reply  that of `inspect.lua` before the release; nil if nothing was released

-- include lib.lua

local function force_release(name, token)
  local held, record = call('GET', name.lock), call('GET', name.holder)
  if not held and not record then
    -- Changes nothing. A replica may not have heard of the hold, and refuses it.
    call('PEXPIRE', name.lock, 0, 'GT')
    return false
  end
  -- A record beside another program's lock is that of an earlier grant.
  local is_present = record and (not held or is_record_of(held, record))
  if token ~= '' and not (is_present and string.match(record, '^%S+ (%d+)') == token) then
    return false
  end
  local before = { held, call('PTTL', name.lock), record, call('PTTL', name.holder) }
  pass_on(name)
  return before
end

return answer_each(force_release, 5, {})
