-- Ends holds for whose names nobody waits, each of its own owner, and touches nothing else. In two commands for all, if the user
-- may read them together.
--
-- KEYS  the locks; in the same order their holder records
-- ARGV  the owner of each name
-- Reply a digit for each name: 1 released, 0 ask for it with all keys

local names = #ARGV
local held = redis.pcall('MGET', unpack(KEYS, 1, names))
if held.err then
  -- The user may not: what was needed before this script was is enough for it.
  held = {}
  for i = 1, names do
    held[i] = redis.pcall('GET', KEYS[i])
  end
end
local answers, ended = {}, {}
for i = 1, names do
  -- Behind the owner of a name for which somebody waits stands `+`.
  local is_held = held[i] == ARGV[i]
  if is_held then
    ended[#ended + 1] = KEYS[i]
    ended[#ended + 1] = KEYS[names + i]
  end
  answers[i] = is_held and '1' or '0'
end
if #ended > 0 then
  redis.call('DEL', unpack(ended))
end
return table.concat(answers)
