-- Deletes the lock if it still holds the token, or cuts its life to `keep`.
-- KEYS[1] the lock   ARGV[1] token   ARGV[2] keep in ms; without it, the lock is deleted
-- Replies: 1 released, 0 no such key, -1 held by something else
local held_by = redis.pcall('GET', KEYS[1])
-- The common case comes first: this script is half of what a lock costs a server.
if held_by == ARGV[1] then
  if not ARGV[2] then
    redis.call('DEL', KEYS[1])
    return 1
  end
  local keep = tonumber(ARGV[2])
  local left = redis.call('PTTL', KEYS[1])
  if left < 0 or left > keep then redis.call('PEXPIRE', KEYS[1], keep) end
  return 1
end
if not held_by then return 0 end
if type(held_by) == 'table' and not string.find(held_by.err, 'WRONGTYPE', 1, true) then return held_by end
return -1
