-- Grants free names to exclusive owners. Names that are not free keep their holders; `acquire_in_turn.lua` decides about them.
--
--   * Only one owner holds a name, also beside clients that use plain `SET key value NX PX`.
--   * The token is the server's clock in µs, if that is larger than every earlier token of the name.
--   * A name is not free if it has a lock key, a holder record, or the key of entries of waiters and readers.
--   * A claim that was granted is not answered with an error.
--
-- KEYS   the locks of all claims; then their holder records, the entries of their waiters and readers, their last tokens
-- ARGV   ttl in ms and description of the holder, for all claims; then the owner of each claim
-- Reply  one token, if all are granted; else one answer for each claim, bare if there is one claim: the token; the ms until the
--        lease of another owner ends, or -1; nil if `acquire_in_turn.lua` must decide

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
local clock, ttl, claims = tonumber(now), ARGV[1], #ARGV - 2
local record = ' ' .. now .. ' ' .. now .. ' ' .. ARGV[2]

local function try_grant(owner, lock, token, now, clock, ttl)
  if redis.pcall('SET', lock, owner, 'NX', 'GET', 'PX', ttl) then
    return false
  end
  local last = redis.pcall('SET', token, now, 'GET', 'KEEPTTL')
  local number = tonumber(last or 0)
  if not number or number >= clock then -- The clock went back, or another program wrote the value.
    redis.pcall('DEL', lock)
    if type(last) == 'string' then
      redis.pcall('SET', token, last, 'KEEPTTL')
    end
    return false
  end
  if number < clock - clock % 3600000000 then
    -- The first grant of each hour keeps it for a day and an hour.
    redis.pcall('SET', token, now, 'PX', '90000000')
  end
  return true
end

local are_free = redis.call('EXISTS', unpack(KEYS, 1, 3 * claims)) == 0
local answers, granted = {}, 0
for claim = 1, claims do
  local owner, lock, holder = ARGV[claim + 2], KEYS[claim], KEYS[claims + claim]
  local is_free = are_free or redis.call('EXISTS', lock, holder, KEYS[2 * claims + claim]) == 0
  answers[claim] = false
  if is_free and try_grant(owner, lock, KEYS[3 * claims + claim], now, clock, ttl) then
    redis.call('SET', holder, owner .. record, 'PX', ttl)
    answers[claim], granted = now, granted + 1
  elseif not is_free and type(redis.pcall('PEXPIRE', lock, 0, 'GT')) == 'number' then
    -- A primary: a replica refuses the write that changes nothing.
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
