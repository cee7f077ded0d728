#!lua
-- Approve one parked call: decide, reserve its budget and queue it, as one step.
--
-- ARGV: prefix, run_id, call_key, by, approved payload, cap_run, envelope, args_sha256,
--       spec_hash (both as the approver saw them), field of the run that remembers the decision
--       ('' for once), its value, then of edited arguments: sha256 ('' for unchanged), inline,
--       blob sha256, bytes, summary for the model; the call of unknown outcome that the person
--       was told of ('' for none, '*' for whichever there is); last field, value, ...
--       of the record: time and output that an attempt with these arguments may take
-- Returns {OK, seq} | {DUP, by, when ms} (the same decision again: arguments and scope)
--       | {CONFLICT, approval state or asked_anew, by, when ms, scope, summary of an edit}
--       | {EXPIRED} | {SUPERSEDED} | {BUDGET, run}
--       | {REPEATS_UNKNOWN} (an equal call may have taken effect, and the person was not told)
--       | {CALLS_PENDING} | {RUN_CLOSED, status} | {NO_CALL}
--       | {JOURNAL_FAILED, why}.
-- A refusal by the clock holds even before the reaper has swept (semantics 6).
-- keys: run (rw), call (rw), run:journal (w), approvals (w), run:approvals (w), asked:{queue} (w),
--       queued:{queue} (w), {queue} (w), deadlines (w), rings (w), journal:all (w), totals (w)

local run, call = read_run(), read_call(ARGV[3])
if not call.state then return { 'NO_CALL' } end
local edited = ARGV[12]
local scope = ARGV[10] ~= '' and 'run' or 'once'
local stands = read(call.hash, 'spec_hash', 'decided_by', 'decided_ms', 'decided_scope', 'edited',
  'args', 'args_blob')
if call.approval_state ~= 'pending' then
  local same = call.args_sha256 == (edited ~= '' and edited or ARGV[8])
    and stands.decided_scope == scope
  if call.approval_state == 'approved' and same then
    return { 'DUP', stands.decided_by or '', stands.decided_ms or '' }
  end
  return { 'CONFLICT', call.approval_state or 'none', stands.decided_by or '',
    stands.decided_ms or '', stands.decided_scope or '', stands.edited or '' }
end
if call.state ~= 'awaiting_approval' then return { 'CONFLICT', call.state, '', '', '', '' } end
if run.status ~= 'open' or run.ending then return { 'RUN_CLOSED', run.ending or run.status } end
if tonumber(call.approval_expires_ms) <= NOW then return { 'EXPIRED' } end
-- Edited and approved, asked about anew since: the question that stands is not the one that was seen.
if call.args_sha256 ~= ARGV[8] then return { 'CONFLICT', 'asked_anew', '', '', '', '' } end
if stands.spec_hash ~= ARGV[9] then return { 'SUPERSEDED' } end
-- While a call is open that ends the run, none is parked: it was alone when it was queued, and no
-- other has been taken since.
if call.control == '1' and redis.call('SCARD', RUN .. ':open') > 1 then
  return { 'CALLS_PENDING' }
end
local unknown = redis.call('HGET', RUN,
  unknown_field(call.tool, edited ~= '' and edited or call.args_sha256))
if unknown and ARGV[17] ~= '*' and ARGV[17] ~= unknown then return { 'REPEATS_UNKNOWN' } end
local patience_ms = tonumber(call.patience_ms)
if not patience_ms then return { 'CONFLICT', 'damaged', '', '', '', '' } end
if reserve(call.tool, tonumber(ARGV[6])) then return { 'BUDGET', 'run' } end
local seq, why = append('tool_call_approved', 'info', 'user:' .. ARGV[4],
  call.key .. '.approved' .. (unknown and '.' .. unknown or ''), ARGV[5], call)
if not seq then return { 'JOURNAL_FAILED', why } end
redis.call('HSET', call.hash, 'state', 'queued', 'approval_state', 'approved',
  'decided_by', ARGV[4], 'decided_ms', NOW, 'decided_scope', scope,
  'reserved', '1', 'told_unknown', unknown or '', unpack(ARGV, 18))
if edited ~= '' then
  redis.call('HSET', call.hash, 'edited', ARGV[16], 'args', ARGV[13], 'args_blob', ARGV[14],
    'args_sha256', edited, 'args_bytes', ARGV[15])
  -- A call that is asked about again may have been edited before; the model's own stay.
  if not stands.edited then
    redis.call('HSET', call.hash, 'asked_args', stands.args or '', 'asked_args_blob',
      stands.args_blob or '', 'asked_args_sha256', call.args_sha256)
  end
end
if ARGV[10] ~= '' then redis.call('HSET', RUN, ARGV[10], ARGV[11]) end
if call.control == '1' then redis.call('HSET', RUN, 'finishing', call.key) end
unpark(call)
count_approval(call, 'approved')
count('open:' .. call.queue .. ':awaiting_approval', -1)
count('open:' .. call.queue .. ':queued', 1)
-- A person's thinking does not use up the call's patience.
local deadline_ms = NOW + patience_ms
redis.call('HSET', call.hash, 'deadline_ms', deadline_ms)
enqueue(call, ARGV[7], deadline_ms)
return { 'OK', seq }
