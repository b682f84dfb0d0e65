-- Says that there was no lock yet that the server could have forgotten.
-- KEYS[1] the guard   ARGV[1] how long the server refuses from when it may have forgotten on, in ms
-- Replies: 1 from now on, 0 there is a guard already
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or '-'
local set = redis.pcall('SET', KEYS[1], run .. ' 0 ' .. ARGV[1], 'NX')
if not set then return 0 end
if set.err then return set end
return 1
