#!lua flags=allow-oom
-- Hand an answer to the worker that asked; an ended session has no say any more.
--
-- ARGV: prefix, extension, session, call, worker, message
-- Returns 1 sent | 0 the session has ended.
-- keys: session (r), asked (w), begun (w), ext_replies (w)

if not is_current(ARGV[3]) then return 0 end
redis.call('ZREM', of_session(ARGV[3], 'asked'), ARGV[4])
redis.call('SREM', of_session(ARGV[3], 'begun'), ARGV[4])
send(P .. 'ext_replies:' .. ARGV[5], 'extension', NAME, 'session', ARGV[3], 'call', ARGV[4],
  'message', ARGV[6])
return 1
