
-- Extends the leases of a batch of claims, each by its own length, each on its own.
--
-- Guarantees, with what stands before it in `extend.lua` and `replica.lua`:
--   * a lease that is held lasts at least its length from now, and is never shortened, unless it had no end at all;
--   * nothing else is changed: an ended lease is not brought back, another owner's is not touched;
--   * one name on which foreign data lies does not keep the others from being renewed;
--   * a replica says of none that it has ended.
--
-- KEYS  for each claim: the lock, its holder record
-- ARGV  for each claim: its owner, its lease in ms
-- Reply one digit for each claim: 1 renewed, 0 gone, 2 taken by another owner

local answers = {}
for i = 1, #KEYS, 2 do
  local lock, holder, owner, ttl = KEYS[i], KEYS[i + 1], ARGV[i], ARGV[i + 1]
  local held = redis.pcall('GET', lock)
  local answer = '2'
  -- With `+` behind it: somebody waits.
  if held == owner or held == owner .. '+' then
    extend(lock, ttl)
    extend(holder, ttl)
    answer = '1'
  elseif not held or held == 'released' then
    answer = '0'
  elseif type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
    return redis.error_reply(held.err .. " 'get'")
  end
  local refusal = answer ~= '1' and refusal_of_replica(lock)
  if refusal then
    return refusal
  end
  answers[#answers + 1] = answer
end
return table.concat(answers)
