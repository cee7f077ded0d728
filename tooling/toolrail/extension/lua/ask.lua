#!lua
-- Ask a session to execute a call, unless it is gone or has too many.
--
-- The session is named by who asks: a repeated ask, whose first reply was lost, can therefore never
-- reach a second session. Repeated to the same one, it changes nothing.
--
-- ARGV: prefix, extension, session, call, deadline_ms, worker, message, queue_max
-- Returns 'asked' | 'unavailable' | 'overloaded'.
-- keys: session (r), calls (w), asked (rw), begun (w)

local asked, begun = of_session(ARGV[3], 'asked'), of_session(ARGV[3], 'begun')
if redis.call('ZSCORE', asked, ARGV[4]) then return 'asked' end
local held = redis.call('HMGET', SESSION, 'session', 'leaving', 'concurrency')
if held[1] ~= ARGV[3] or held[2] then return 'unavailable' end
-- Calls of a worker that died: kept a minute past their deadline, counted until it.
for _, old in ipairs(redis.call('ZRANGEBYSCORE', asked, '-inf', NOW - 60000)) do
  redis.call('ZREM', asked, old)
  redis.call('SREM', begun, old)
end
if redis.call('ZCOUNT', asked, NOW, '+inf') >= held[3] + ARGV[8] then return 'overloaded' end
redis.call('ZADD', asked, ARGV[5], ARGV[4])
redis.call('PEXPIRE', asked, KEPT_MS)
send(of_session(ARGV[3], 'calls'), 'worker', ARGV[6], 'message', ARGV[7])
return 'asked'
