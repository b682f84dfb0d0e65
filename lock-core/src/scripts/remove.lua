-- Deletes the lock, regardless of its holder.
-- KEYS[1] the lock
-- Replies: 1 deleted, 0 no such key, -1 a key of another type, which is not a lock and stays
local held_by = redis.pcall('GET', KEYS[1])
if not held_by then return 0 end
if type(held_by) == 'table' then
  if not string.find(held_by.err, 'WRONGTYPE', 1, true) then return held_by end
  return -1
end
redis.call('DEL', KEYS[1])
return 1
