#!lua flags=allow-oom
-- Let an extension start a call's function; nothing runs that nobody waits for.
--
-- ARGV: prefix, extension, session, call, entry id of its message
-- Returns ms until the deadline | 0 it was withdrawn, is too late, or the session has ended.
-- keys: session (r), calls (w), asked (r), begun (w)

redis.call('XDEL', of_session(ARGV[3], 'calls'), ARGV[5])
local deadline = redis.call('ZSCORE', of_session(ARGV[3], 'asked'), ARGV[4])
if not deadline or not is_current(ARGV[3]) then return 0 end
local left = tonumber(deadline) - NOW
if left <= 0 then return 0 end
redis.call('SADD', of_session(ARGV[3], 'begun'), ARGV[4])
redis.call('PEXPIRE', of_session(ARGV[3], 'begun'), KEPT_MS)
return left
