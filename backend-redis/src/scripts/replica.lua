
-- What a replica does not have tells nothing: it may not have heard of it yet. Its refusal of a write that changes nothing, if this
-- is one. No end is put off, but one within this millisecond.
local function refusal_of_replica(key)
  local done = redis.pcall('PEXPIRE', key, '1', 'GT')
  return type(done) == 'table' and string.sub(done.err, 1, 8) == 'READONLY' and done
end
