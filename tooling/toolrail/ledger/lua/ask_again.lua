#!lua
-- Ask a person about a queued call whose like has ended as outcome_unknown since it was queued.
--
-- ARGV: prefix, run_id, call_key, approval record, expiry ms, payload of the question, actor
-- Returns {OK, seq} | {REFUSED, state} | {NO_CALL} | {JOURNAL_FAILED, why}.
-- As every parked call it holds no unit; an approval of before does not count any more. From now on
-- the question's expiry is all that ends it: whoever saw its deadline pass comes too late.
-- keys: run (rw), call (rw), run:journal (w), approvals (w), run:approvals (w), asked:{queue} (w),
--       queued:{queue} (w), deadlines (w), journal:all (w), totals (w)

local run, call = read_run(), read_call(ARGV[3])
if not call.state then return { 'NO_CALL' } end
local unknown = repeats_unknown(call)
if call.state ~= 'queued' or not unknown or call.cancel or run.status ~= 'open' or run.ending
  or tonumber(call.deadline_ms) <= NOW then
  return { 'REFUSED', call.state }
end
local seq, why = append('tool_call_awaiting_approval', 'info', ARGV[7],
  call.key .. '.repeats.' .. unknown, ARGV[6], call)
if not seq then return { 'JOURNAL_FAILED', why } end
give_back(call)
redis.call('HDEL', call.hash, 'decided_by', 'decided_ms', 'decided_scope')
redis.call('HSET', call.hash, 'state', 'awaiting_approval', 'approval', ARGV[4],
  'approval_state', 'pending', 'approval_expires_ms', ARGV[5],
  'asked_unknown', unknown, 'deadline_ms', ARGV[5])
redis.call('ZREM', P .. 'queued:' .. call.queue, call.member)
redis.call('ZREM', P .. 'deadlines', call.member)
park(call, ARGV[5])
if run.finishing == call.key then redis.call('HDEL', RUN, 'finishing') end
count('open:' .. call.queue .. ':queued', -1)
count('open:' .. call.queue .. ':awaiting_approval', 1)
count_approval(call, 'asked')
return { 'OK', seq }
