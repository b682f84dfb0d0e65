-- Raises the counters of locks that are held, if they have the number that this holder raised them to.
-- KEYS: the locks, then the counter of each in the same order
-- ARGV[1] token   ARGV[2] the number granted   ARGV[3] the number to confirm   ARGV[4] lifetime of the counters in ms
-- Replies: 1 confirmed, 0 not
local locks = #KEYS / 2
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  if value ~= (i > locks and ARGV[2] .. ' ' .. ARGV[1] or ARGV[1]) then return 0 end
end
for i = locks + 1, #KEYS do
  local set = redis.pcall('SET', KEYS[i], ARGV[3] .. ' ' .. ARGV[1], 'PX', ARGV[4])
  if set.err then return set end
end
return 1
