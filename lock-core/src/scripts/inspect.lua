-- Reports the holder of the lock, and changes nothing.
-- KEYS[1] the lock
-- Replies: 0 no such key, or {holder's token, PTTL of the lock in ms}
local held_by = redis.pcall('GET', KEYS[1])
if not held_by then return 0 end
if type(held_by) == 'table' then
  -- A key of another type is somebody's data, which has no token. Any other error is an error.
  if not string.find(held_by.err, 'WRONGTYPE', 1, true) then return held_by end
  return {false, redis.call('PTTL', KEYS[1])}
end
return {string.sub(held_by, 1, 128), redis.call('PTTL', KEYS[1])}
