#!lua flags=allow-oom
-- Mark a call to be cancelled, durably, and nudge the worker that runs it.
--
-- ARGV: prefix, run_id, call_key
-- Returns {state}: queued and awaiting_approval are then closed by finish.lua; a running call
-- ends when its worker has stopped the tool. {NO_CALL} when there is none.
-- keys: call (rw), nudge:{worker} (w)

local call = read_call(ARGV[3])
if not call.state then return { 'NO_CALL' } end
if not TERMINAL[call.state] then
  -- Told once: a nudge that is lost is made up for by the next renewal.
  if redis.call('HSETNX', call.hash, 'cancel', '1') == 1 and call.state == 'running' then
    local nudge = P .. 'nudge:' .. call.worker
    redis.call('XADD', nudge, 'MAXLEN', '~', 1000, '*', 'run', RUN_ID, 'call', call.key)
    redis.call('PEXPIRE', nudge, HOUR_MS)
  end
end
return { call.state }
