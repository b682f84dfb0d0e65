-- Sets each lock that holds an old token, or the new one, to the new one; never creates one, never shortens one.
-- KEYS[i] a lock   ARGV[1] new token   ARGV[2] ttl in ms   ARGV[3..] old tokens
-- Replies: for each lock 1 holds the new token now, 0 no such key, -1 held by something else
local replies = {}
for i, key in ipairs(KEYS) do
  local held_by = redis.pcall('GET', key)
  local is_ours = held_by == ARGV[1]
  for j = 3, #ARGV do is_ours = is_ours or held_by == ARGV[j] end
  if is_ours then
    local ttl = math.max(redis.call('PTTL', key), tonumber(ARGV[2]))
    local set = redis.pcall('SET', key, ARGV[1], 'PX', ttl)
    if set.err then return set end
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
