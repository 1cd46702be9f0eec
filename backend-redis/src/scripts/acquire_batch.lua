-- Grants free names for which nobody waits, each to its own owner, and leaves every other name as it is. What one name costs
-- is the three commands that write: the call, the clock and its digits are shared, and the last token is read by the command
-- that writes it.
--
-- Guarantees:
--   * a name that is granted is granted as by `acquire.lua`: the same keys, the same token, the same lease;
--   * a name that is not granted is as it was, whatever the reason: it is held, somebody waits, its holder's record stands,
--     the clock is behind its last token, foreign data lies there, a command was refused; only a user without `DEL` may
--     leave the lock key for its lease, and nothing by which a grant is believed;
--   * no name keeps another from being granted, and no error ends the script once something was granted.
--
-- KEYS  the locks; in the same order their holder records; and the last tokens of the names
-- ARGV  lease in ms, description of the holder; then the owner of each name, in 32 hexadecimal digits
-- Reply the token of all that are granted, and a digit for each name: 1 granted, 0 ask for it with all keys

local names = #KEYS / 3
local ttl, description = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = string.format('%s%06d', time[1], time[2])
local clock, rest = tonumber(now), ' ' .. now .. ' ' .. now .. ' ' .. description
-- If it is of this hour, a last token is kept long enough: see `acquire.lua`.
local this_hour = clock - clock % 3600000000
local pcall, keys, args, tonumber, huge = redis.pcall, KEYS, ARGV, tonumber, math.huge

-- With `GET`, it is nothing that tells of a success, which is cheaper to make than a word, twice a name.
local function grant_if_free(lock, holder, last, owner)
  if pcall('SET', lock, owner, 'NX', 'GET', 'PX', ttl) then
    return '0'
  end
  local previous = pcall('SET', last, now, 'GET', 'KEEPTTL')
  -- No number: somebody waits, and it says so; or it was not written.
  local before = previous and (tonumber(previous) or huge) or 0
  -- Last, as in `acquire.lua`: who finds a record of its own believes that it was granted, also where `DEL` was refused.
  local recorded = before < clock and not pcall('SET', holder, owner .. rest, 'NX', 'GET', 'PX', ttl)
  if recorded and (before >= this_hour or not pcall('SET', last, now, 'PX', '90000000').err) then
    return '1'
  end
  pcall('DEL', lock)
  if recorded then
    pcall('DEL', holder)
  end
  if type(previous) == 'string' then
    pcall('SET', last, previous, 'KEEPTTL')
  elseif not previous then
    pcall('DEL', last)
  end
  return '0'
end

local answers = {}
for i = 1, names do
  answers[i] = grant_if_free(keys[i], keys[names + i], keys[2 * names + i], args[2 + i])
end
return now .. ' ' .. table.concat(answers)
