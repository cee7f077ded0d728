#!lua flags=allow-oom
-- Give up the places of tools that nobody offers any more, so that others can have them.
--
-- ARGV: prefix, '' (no single run), how many names, then the names as queue:tool, then the fields
--       that count for them
-- Returns {OK, places that became free}.
-- A call of such a tool that finishes meanwhile takes a place anew, here or before.
-- keys: totals:tools (w)

local key, last, freed = P .. 'totals:tools', 3 + tonumber(ARGV[3]), 0
for i = 4, last do freed = freed + redis.call('HDEL', key, 'name:' .. ARGV[i]) end
for i = last + 1, #ARGV do redis.call('HDEL', key, ARGV[i]) end
if freed > 0 then redis.call('HINCRBY', key, 'names', -freed) end
return { 'OK', freed }
