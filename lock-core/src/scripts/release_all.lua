-- Deletes each lock that still holds the token, or cuts its life to `keep`.
-- KEYS[i] a lock   ARGV[1] token   ARGV[2] keep in ms; without it, the locks are deleted
-- Replies: for each lock 1 released, 0 no such key, -1 held by something else
local replies = {}
for i, key in ipairs(KEYS) do
  local held_by = redis.pcall('GET', key)
  if held_by == ARGV[1] then
    if ARGV[2] then
      local keep = tonumber(ARGV[2])
      local left = redis.call('PTTL', key)
      if left < 0 or left > keep then redis.call('PEXPIRE', key, keep) end
    else
      redis.call('DEL', key)
    end
    replies[i] = 1
  elseif not held_by then
    replies[i] = 0
  elseif type(held_by) == 'table' and not string.find(held_by.err, 'WRONGTYPE', 1, true) then
    return held_by
  else
    replies[i] = -1
  end
end
return replies
