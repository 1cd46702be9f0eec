
-- Extends the leases of a batch of claims on this node, each by its own length, each on its own.
--
-- Guarantees:
--   * a lease that this node has is made to last at least its length from now, and is never shortened, unless it had no
--     end at all;
--   * nothing else is changed: an ended lease is not brought back, another owner's is not touched;
--   * one name on which foreign data lies does not keep the others from being renewed;
--   * no attempt that was made before takes back what was renewed, however late that comes.
--
-- KEYS  for each claim: the lock, its holder record
-- ARGV  place of the node, number of the renewal: that of no attempt; for each claim: its owner, its lease in ms
-- Reply one digit for each claim: 1 renewed, 0 gone, 2 taken by another owner

-- Makes a key last at least `ttl` ms from now, and never less than it did. A key that lost its end by PERSIST gets one again.
local function extend(key, ttl)
  if redis.call('PEXPIRE', key, ttl, 'GT') == 0 and redis.call('PTTL', key) == -1 then
    redis.call('PEXPIRE', key, ttl)
  end
end

local place, number, answers = ARGV[1], ARGV[2], {}

-- Only after the leases were extended: where memory is full, a script may write only what comes after a write that needs none.
local function outdate_attempts(lock, holder, owner)
  local value = owner .. ':0' .. number .. ':' .. place
  redis.call('SET', lock, value, 'KEEPTTL')
  local record = redis.pcall('GET', holder)
  if type(record) == 'string' and owner_of(record) == owner then
    redis.call('SET', holder, (string.gsub(record, '^%S+', value)), 'KEEPTTL')
  end
end

for i = 1, #KEYS, 2 do
  local lock, holder, owner, ttl = KEYS[i], KEYS[i + 1], ARGV[i + 2], ARGV[i + 3]
  local held = redis.pcall('GET', lock)
  local answer = '2'
  if type(held) == 'table' then
    if not string.find(held.err, 'WRONGTYPE', 1, true) then
      return redis.error_reply(held.err .. " 'get'")
    end
  elseif not held or held == 'released' then
    answer = '0'
  else
    local who, attempt, where = parts(held)
    if who == owner and where == place then
      extend(lock, ttl)
      extend(holder, ttl)
      -- Once is enough, and the zero says that it was done.
      if string.sub(attempt, 1, 1) ~= '0' then
        outdate_attempts(lock, holder, owner)
      end
      answer = '1'
    end
  end
  answers[#answers + 1] = answer
end
return table.concat(answers)
