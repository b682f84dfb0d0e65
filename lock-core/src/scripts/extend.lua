-- Extends each lock that still holds its token; never creates one, never shortens one.
-- KEYS[i] a lock   ARGV[2i-1] its token   ARGV[2i] its ttl in ms
-- Replies: for each lock 1 extended, 0 no such key, -1 held by something else
local replies = {}
for i, key in ipairs(KEYS) do
  local held_by = redis.pcall('GET', key)
  if held_by == ARGV[2 * i - 1] then
    local ttl = tonumber(ARGV[2 * i])
    if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
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
