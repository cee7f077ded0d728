#!lua
-- Approve one parked call: decide, reserve its budget and queue it, as one step.
--
-- ARGV: prefix, run_id, call_key, by, approved payload, cap_run, envelope, args_sha256,
--       spec_hash (what the approver saw)
-- Returns {OK, seq} | {DUP} | {CONFLICT, approval state} | {EXPIRED} | {SUPERSEDED}
--       | {BUDGET, run} | {CALLS_PENDING} | {AFTER_FINISH} | {RUN_CLOSED, status} | {NO_CALL} | {JOURNAL_FAILED, why}.
-- A refusal by the clock holds even before the reaper has swept (semantics 6).
-- keys: run (rw), call (rw), run:journal (w), approvals (w), queued:{queue} (w), {queue} (w),
--       deadlines (w), rings (w), journal:all (w), totals (w)

local run, call = read_run(), read_call(ARGV[3])
if not call.state then return { 'NO_CALL' } end
if call.approval_state ~= 'pending' then
  if call.approval_state == 'approved' then return { 'DUP' } end
  return { 'CONFLICT', call.approval_state or 'none' }
end
if call.state ~= 'awaiting_approval' then return { 'CONFLICT', call.state } end
if run.status ~= 'open' or run.ending then return { 'RUN_CLOSED', run.ending or run.status } end
if tonumber(call.approval_expires_ms) <= NOW then return { 'EXPIRED' } end
local bound = read(call.hash, 'args_sha256', 'spec_hash')
if bound.args_sha256 ~= ARGV[8] or bound.spec_hash ~= ARGV[9] then return { 'SUPERSEDED' } end
if run.finishing then return { 'AFTER_FINISH' } end
if call.control == '1' and redis.call('SCARD', RUN .. ':open') > 1 then
  return { 'CALLS_PENDING' }
end
if reserve(call.tool, tonumber(ARGV[6])) then return { 'BUDGET', 'run' } end
local seq, why = append('tool_call_approved', 'info', 'user:' .. ARGV[4],
  call.key .. '.approved', ARGV[5], call)
if not seq then return { 'JOURNAL_FAILED', why } end
redis.call('HSET', call.hash, 'state', 'queued', 'approval_state', 'approved',
  'decided_by', ARGV[4], 'decided_ms', NOW, 'reserved', '1')
if call.control == '1' then redis.call('HSET', RUN, 'finishing', call.key) end
redis.call('ZREM', P .. 'approvals', call.member)
count('open:' .. call.queue .. ':awaiting_approval', -1)
count('open:' .. call.queue .. ':queued', 1)
-- A person's thinking does not use up the call's patience.
local deadline_ms = NOW + tonumber(call.patience_ms)
redis.call('HSET', call.hash, 'deadline_ms', deadline_ms)
enqueue(call, ARGV[7], deadline_ms)
return { 'OK', seq }
