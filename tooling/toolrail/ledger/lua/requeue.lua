#!lua flags=allow-oom
-- Queue the next attempt of a call whose lease ran out.
--
-- ARGV: prefix, run_id, call_key, fence, next attempt, envelope, actor
-- Returns {OK, seq} | {REFUSED, state} | {NO_CALL} | {JOURNAL_FAILED, why}.
-- The fence moves on at once, so that the lost worker's finish is late, whatever comes first.
-- keys: run (rw), call (rw), run:journal (w), leases (w), queued:{queue} (w), {queue} (w),
--       deadlines (w), rings (w), journal:all (w), totals (w)

local run, call = read_run(), read_call(ARGV[3])
if not call.state then return { 'NO_CALL' } end
local lease = redis.call('ZSCORE', P .. 'leases', call.member)
if call.state ~= 'running' or call.fence ~= ARGV[4] or call.cancel
  or (lease and tonumber(lease) > NOW) or run.status ~= 'open' or run.ending then
  return { 'REFUSED', call.state }
end
-- What a damaged record makes fail must fail before the first write: half a change would stay.
if not call.queue then return { 'REFUSED', call.state } end
-- A call that lost its deadline has nothing to wait for; the reaper ends it.
local deadline_ms = tonumber(call.deadline_ms) or NOW
local lost = cjson.encode({ attempt = tonumber(call.attempt), worker = call.worker,
  next_attempt = tonumber(ARGV[5]) })
local seq, why = append('tool_attempt_lost', 'warn', ARGV[7],
  call.key .. '.' .. call.attempt .. '.lost', lost, call)
if not seq then return { 'JOURNAL_FAILED', why } end
redis.call('HINCRBY', call.hash, 'fence', 1)
redis.call('HSET', call.hash, 'state', 'queued', 'attempt', ARGV[5],
  'deadline_ms', deadline_ms)
redis.call('HDEL', call.hash, 'nonce', 'worker')
redis.call('ZREM', P .. 'leases', call.member)
count('lease_expired:' .. call.queue, 1)
count('open:' .. call.queue .. ':running', -1)
count('open:' .. call.queue .. ':queued', 1)
enqueue(call, ARGV[6], deadline_ms)
return { 'OK', seq }
