-- Grants free names to exclusive owners. It changes nothing of any other name: `acquire_in_turn.lua` decides about those.
--
--   * One owner at a time, also towards programs that know only `SET key value NX PX`.
--   * The token is the server's clock in µs, if that is larger than every earlier token of the name.
--   * A name is not free while an owner waits for it or reads under it, or while a holder's record has no lock key.
--   * A claim that was granted is not answered with an error.
--
-- KEYS   the locks of all claims; then their holder records, the entries of their waiters and readers, their last tokens
-- ARGV   ttl in ms and description of the holder, for all claims; then the owner of each claim
-- Reply  the token, if all are granted. Else for each claim, without an array around a single one: the token; the ms until the
--        lease of another owner ends, or -1; nil if `acquire_in_turn.lua` is to decide

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local clock, ttl, claims = tonumber(now), ARGV[1], #ARGV - 2
local record = ' ' .. now .. ' ' .. now .. ' ' .. ARGV[2]

local function is_granted(owner, lock, token, now, clock, ttl)
  if redis.pcall('SET', lock, owner, 'NX', 'GET', 'PX', ttl) then
    return false
  end
  local last = redis.pcall('SET', token, now, 'GET', 'KEEPTTL')
  local number = tonumber(last or 0)
  if not number or number >= clock then
    -- The clock went back, or the value is another program's.
    redis.pcall('DEL', lock)
    if type(last) == 'string' then
      redis.pcall('SET', token, last, 'KEEPTTL')
    end
    return false
  end
  if number < clock - clock % 3600000000 then
    -- Kept for a day and an hour. The end of the key is set by the first grant of each hour.
    redis.pcall('SET', token, now, 'PX', '90000000')
  end
  return true
end

local are_free = redis.call('EXISTS', unpack(KEYS, 1, 3 * claims)) == 0
local answers, granted = {}, 0
for claim = 1, claims do
  local owner, lock, holder = ARGV[claim + 2], KEYS[claim], KEYS[claims + claim]
  local is_free = are_free or redis.call('EXISTS', lock, holder, KEYS[2 * claims + claim]) == 0
  if is_free and is_granted(owner, lock, KEYS[3 * claims + claim], now, clock, ttl) then
    redis.call('SET', holder, owner .. record, 'PX', ttl)
    answers[claim], granted = now, granted + 1
  else
    local held = redis.pcall('GET', lock)
    local left = type(held) == 'string' and held ~= owner and redis.pcall('PTTL', lock)
    answers[claim] = type(left) == 'number' and left
  end
end
if granted == claims then
  return now
end
if claims == 1 then
  return answers[1]
end
return answers
