-- Deletes the lock if it still holds the token, or cuts its life to what it shall be kept for.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] keep in ms, 0 deletes
-- Replies: 1 released, 0 no such key, -1 held by something else
local held_by = redis.pcall('GET', KEYS[1])
if not held_by then return 0 end
if type(held_by) == 'table' and not string.find(held_by.err, 'WRONGTYPE', 1, true) then return held_by end
if held_by ~= ARGV[1] then return -1 end
local keep = tonumber(ARGV[2])
if keep == 0 then
  redis.call('DEL', KEYS[1])
else
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 or left > keep then redis.call('PEXPIRE', KEYS[1], keep) end
end
return 1
