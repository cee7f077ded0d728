#!lua flags=allow-oom
-- Wait for a call's answer no longer, and tell the session to stop it.
--
-- ARGV: prefix, extension, session, call, message (the cancel)
-- Returns 1 its function had started | 0 it had not, and never will | -1 not asked, or answered.
-- keys: session (r), calls (w), asked (rw), begun (rw)

if redis.call('ZREM', of_session(ARGV[3], 'asked'), ARGV[4]) == 0 then return -1 end
if is_current(ARGV[3]) then send(of_session(ARGV[3], 'calls'), 'message', ARGV[5]) end
return redis.call('SREM', of_session(ARGV[3], 'begun'), ARGV[4])
