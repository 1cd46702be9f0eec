-- What the scripts share: claims, the clock, the records of holds, the leases of readers. Included where a script says so.

-- As `redis.call`, but an error names the command, which Redis 7.0 does not do for a missing right.
local type, pcall_of_redis = type, redis.pcall
local function call(command, ...)
  local reply = pcall_of_redis(command, ...)
  if type(reply) == 'table' and reply.err then
    error(reply.err .. " '" .. command .. "'", 0)
  end
  return reply
end

-- The kinds of keys of a name, in the order of KEYS: the keys of one kind for all claims, then those of the next kind.
local KEY_ORDER = { 'lock', 'holder', 'owners', 'token', 'queue', 'shared' }

-- Calls `command` for each claim, with the keys of its name and its arguments. ARGV has the arguments that all claims share, then
-- those of each claim. An error is the answer for its claim alone. A single answer is bare.
local function answer_each(command, kinds, claims, shared_args)
  local args, answers = (#ARGV - shared_args) / claims, {}
  for claim = 1, claims do
    local name, first = {}, shared_args + args * (claim - 1)
    for i = 1, #KEYS / claims do
      name[kinds[i]] = KEYS[claims * (i - 1) + claim]
    end
    local done, answer = pcall(command, name, unpack(ARGV, first + 1, first + args))
    if not done then
      answer = redis.error_reply(answer)
    end
    answers[claim] = answer
  end
  if claims == 1 then
    return answers[1]
  end
  return answers
end

-- The server's clock in microseconds.
local function time()
  local now = call('TIME')
  return now[1] * 1000000 + now[2]
end

-- All digits of a number, which `..` would round, and `%d` would cut on a server of 32 bits.
local function digits(number)
  return string.format('%.0f', number)
end

-- The value of the lock key, which is the owner. Data of another kind is another program's lock.
local function lock_value(name)
  local value = redis.pcall('GET', name.lock)
  if type(value) ~= 'table' then
    return value
  end
  return string.find(value.err, 'WRONGTYPE', 1, true) and 'foreign' or error(value.err .. " 'GET'", 0)
end

-- The record of a hold is `owner token granted_at description`.
local function is_record_of(owner, record)
  return record and string.match(record, '^%S+') == owner
end

-- Makes a key last at least `ttl` ms from now, and shortens no end that it has. A key that lost its end by PERSIST gets one again.
-- An end that stays is written again, because `WAIT` waits for the last write of its own connection.
local function extend(key, ttl)
  if call('PEXPIRE', key, ttl, 'GT') == 0 then
    local left = call('PTTL', key)
    if left > -2 then
      call('PEXPIRE', key, left > -1 and left or ttl)
    end
  end
end

-- Changes nothing. A replica may not have heard of a hold or of its end, and refuses this write.
local function refuse_on_replica(key)
  call('PEXPIRE', key, 0, 'GT')
end

-- The ms until a key ends, -1 if it has no end.
local function ms_left(key)
  return math.max(call('PTTL', key), -1)
end

local function millis(micros)
  return math.ceil(micros / 1000)
end

-- When the last lease of all readers ends, nil if there are none.
local function last_reader_end(name, now)
  local last = tonumber(call('ZRANGE', name.shared, '-1', '-1', 'WITHSCORES')[2] or nil)
  return last and last > now and last or nil
end

-- Removes the readers whose leases have ended. Returns when the last lease of the others ends, nil if there are none.
local function purge_ended_readers(name, now)
  local ended = call('ZRANGE', name.shared, '-inf', digits(now), 'BYSCORE', 'LIMIT', '0', '1000')
  if ended[1] then
    call('ZREM', name.shared, unpack(ended))
    call('HDEL', name.owners, unpack(ended))
  end
  return last_reader_end(name, now)
end

-- Sets the end of a reader's lease. The caller has made the lock key, whose value is `shared`, last at least as long.
local function set_reader_end(name, owner, ends, now)
  call('ZADD', name.shared, digits(ends), owner)
  extend(name.shared, millis(ends - now))
  extend(name.owners, millis(ends - now))
end

-- Extends the lease of a reader, and returns its record. Nil if it holds nothing.
local function extend_reader(name, owner, ttl, now)
  local ends = tonumber(call('ZSCORE', name.shared, owner) or nil)
  local record = ends and ends > now and call('HGET', name.owners, owner)
  if is_record_of(owner, record) then
    ends = math.max(ends, now + ttl * 1000)
    -- PEXPIRE comes first, because a server whose memory is full refuses only a first write that needs memory.
    extend(name.lock, millis(ends - now))
    set_reader_end(name, owner, ends, now)
    return record
  end
end

-- Adds the ms to the end and the record of each reader to a reply, if its grant has this token. Returns the owners.
local function add_readers(name, reply, token)
  local now = time()
  local readers, owners = call('ZRANGE', name.shared, '0', '-1', 'WITHSCORES'), {}
  for i = 1, #readers, 2 do
    local record = call('HGET', name.owners, readers[i])
    local is_meant = not token or token == '' or (record and string.match(record, '^%S+ (%d+)') == token)
    if is_meant and tonumber(readers[i + 1]) > now then
      reply[#reply + 1] = { millis(readers[i + 1] - now), record }
      owners[#owners + 1] = readers[i]
    end
  end
  return owners
end
