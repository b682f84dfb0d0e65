-- Sets all locks if all are free, else reports the holder of the first one that is not.
-- KEYS[i] a lock   ARGV[1] token   ARGV[2] ttl in ms
-- Replies: 1 granted, or {holder's token, PTTL of the lock in ms}
local free = {}
for _, key in ipairs(KEYS) do
  local held_by = redis.pcall('GET', key)
  if type(held_by) == 'table' and held_by.err then
    if not string.find(held_by.err, 'WRONGTYPE', 1, true) then return held_by end
    return {false, redis.call('PTTL', key)}
  end
  if not held_by then
    free[#free + 1] = key
  elseif held_by ~= ARGV[1] then
    return {string.sub(held_by, 1, 128), redis.call('PTTL', key)}
  end
end
for _, key in ipairs(free) do
  local set = redis.pcall('SET', key, ARGV[1], 'NX', 'PX', ARGV[2])
  if set.err then return set end
end
return 1
