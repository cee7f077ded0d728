#!lua flags=allow-oom
-- Keep a session alive.
--
-- ARGV: prefix, extension, session
-- Returns 1 alive | 0 it has ended, or belongs to another one.
-- keys: session (rw), extension (w), extensions (w)

if not is_current(ARGV[3]) then return 0 end
redis.call('PEXPIRE', SESSION, redis.call('HGET', SESSION, 'dead_ms'))
list()
return 1
