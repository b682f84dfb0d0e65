-- Sets the lock if it is free, else reports its holder.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] ttl in ms
-- Replies: 1 granted, or {holder's token, PTTL of the lock in ms}
local held_by = redis.pcall('GET', KEYS[1])
if type(held_by) == 'table' and held_by.err then
  -- A key of another type is somebody's data: held. Any other error is an error, not a refusal.
  if not string.find(held_by.err, 'WRONGTYPE', 1, true) then return held_by end
  return {false, redis.call('PTTL', KEYS[1])}
end
if held_by == ARGV[1] then return 1 end
if held_by then return {string.sub(held_by, 1, 128), redis.call('PTTL', KEYS[1])} end
local set = redis.pcall('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if set.err then return set end
return 1
