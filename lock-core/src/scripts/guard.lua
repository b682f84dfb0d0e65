-- Stands before the scripts that acquire: refuses while the server may have forgotten a lock.
-- KEYS[last] the guard   ARGV[last] how long the server refuses from when it may have forgotten on, in ms
-- Replies: those of the script behind it, or the error QUARANTINE with what is left in ms
do
  local guard, longest = table.remove(KEYS), tonumber(table.remove(ARGV))
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  -- Where INFO is refused, the loss of the guard alone shows.
  local info = redis.pcall('INFO', 'server')
  local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
  local value = redis.pcall('GET', guard)
  if type(value) == 'table' then return value end
  local known, ends, asked = string.match(value or '', '^(%S+) (%d+) (%d+)$')
  if value and not known then return redis.error_reply('WRONGTYPE the key of the restart guard holds something else') end
  asked = tonumber(asked or longest)
  longest = math.max(longest, asked)
  ends = tonumber(ends or now + longest)
  -- Whoever asked before may have asked for less than what was forgotten. 0 is a server that has forgotten nothing.
  if ends > 0 then ends = ends + longest - asked end
  -- A clock that was set back must not keep the server out for longer.
  ends = math.min(ends, now + longest)
  if run and known and known ~= '-' and known ~= run then ends = now + longest end
  local mark = string.format('%s %.0f %.0f', run or known or '-', ends, longest)
  if mark ~= value then
    local set = redis.pcall('SET', guard, mark)
    if set.err then return set end
  end
  if ends > now then
    return redis.error_reply(string.format('QUARANTINE %.0f ms left, since the server may have forgotten locks', ends - now))
  end
end
