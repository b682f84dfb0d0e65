-- Sets all locks if all are free and raises their counters, else reports the holder of the first one that is not.
-- KEYS: the locks, then the counter of each in the same order
-- ARGV[1] token   ARGV[2] ttl in ms   ARGV[3] the least number to answer   ARGV[4] lifetime of the counters in ms
-- Replies: the number that all counters have now, or {holder's token, PTTL of the lock in ms}
local locks = #KEYS / 2
local number = tonumber(ARGV[3])
local own
local is_repeated = true
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  local is_of_another_type = type(value) == 'table'
  if is_of_another_type and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  if i <= locks then
    if is_of_another_type then return {false, redis.call('PTTL', key)} end
    if value and value ~= ARGV[1] then return {string.sub(value, 1, 128), redis.call('PTTL', key)} end
    own = own or value and key
    is_repeated = is_repeated and value
  elseif value then
    local last, by = string.match(is_of_another_type and '' or value, '^(%d+) (.+)$')
    if not last then return redis.error_reply('WRONGTYPE the key of the fencing counter holds something else') end
    number = math.max(number, tonumber(last) + 1)
    is_repeated = is_repeated and by == ARGV[1]
  else
    -- A server that lost the counter goes on above its past.
    local now = redis.call('TIME')
    number = math.max(number, now[1] * 1000000 + now[2])
    is_repeated = false
  end
end
-- The same command once more: its number is in the counters, if its own token has raised them.
if is_repeated then return number - 1 end
if own then return {ARGV[1], redis.call('PTTL', own)} end
-- Below 2^53 Lua counts exactly.
if number >= 2 ^ 53 then return redis.error_reply('ERR the fencing counter is exhausted') end
-- The counters come first: a lock is never without them.
for i = #KEYS, 1, -1 do
  local is_lock = i <= locks
  local value = is_lock and ARGV[1] or string.format('%.0f %s', number, ARGV[1])
  local set = redis.pcall('SET', KEYS[i], value, 'PX', is_lock and ARGV[2] or ARGV[4])
  if set.err then return set end
end
return number
