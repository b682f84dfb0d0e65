-- Tells the server's time, and what it says of itself; changes nothing.
-- Replies: {seconds, microseconds, lines of name:value}, or, where INFO is refused,
-- {seconds, microseconds, nil, why}
local time = redis.call('TIME')
local told = {}
for _, section in ipairs({'server', 'replication', 'persistence', 'memory'}) do
  local info = redis.pcall('INFO', section)
  if type(info) == 'table' then return {time[1], time[2], false, info.err} end
  told[#told + 1] = info
end
told = table.concat(told, '\n')
local lines = {}
for _, name in ipairs({
  'redis_version', 'valkey_version', 'run_id', 'role', 'connected_slaves', 'min_slaves_good_slaves',
  'aof_enabled', 'maxmemory', 'maxmemory_policy',
}) do
  local value = string.match(told, '\n' .. name .. ':([^\r\n]*)')
  if value then lines[#lines + 1] = name .. ':' .. value end
end
return {time[1], time[2], table.concat(lines, '\n')}
