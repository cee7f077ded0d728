#!lua flags=allow-oom
-- Close a call with its one outcome. The worker's finish and every close without a worker
-- (deny, expire, cancel before start, deadline, lost) are this one script with other guards.
--
-- ARGV: prefix, run_id, call_key, guard, fence, state, outcome, error_class, error_code,
--       result inline, result blob sha256, result_sha256, inbox result, actor, run end (completed
--       | failed | ''), its code, approval_state (of a parked call; '' is cancelled), dead_letter (0|1),
--       number of events, then per event: type, level, payload; last a denying person's words, or ''
-- guard: running (the fence must be current) | lost (running, fence current, lease over)
--      | queued | awaiting_approval | undecided (awaiting, and not too late for a person)
--      | approval_over | deadline_over (queued or awaiting, too late)
--      | repeats (queued, and its like ended as outcome_unknown meanwhile)
-- Returns {OK, seq} | {DUP} (the same result again) | {LATE, state} | {REFUSED, state}
--       | {NO_CALL} | {JOURNAL_FAILED, why}: the call is closed all the same, with that code.
-- keys: run (rw), call (rw), run:journal (w), run:open (w), leases (w), deadlines (w),
--       approvals (w), run:approvals (w), asked:{queue} (w), queued:{queue} (w),
--       dead_letters (w), inbox (w), journal:all (w), totals (w), totals:tools (w), totals:rules (w)

local run, call, guard = read_run(), read_call(ARGV[3]), ARGV[4]
if not call.state then return { 'NO_CALL' } end

local function late()
  if redis.call('HSETNX', call.hash, 'late:' .. ARGV[5], NOW) == 1 then
    count('late:' .. call.queue, 1)
    if run.status == 'open' then
      append('tool_result_late', 'debug', ARGV[14], call.key .. '.late.' .. ARGV[5],
        cjson.encode({ fence = tonumber(ARGV[5]), state = call.state, sha256 = ARGV[12] }), call)
    end
  end
  return { 'LATE', call.state }
end

if TERMINAL[call.state] and guard ~= 'running' and call.result_sha256 == ARGV[12] then
  return { 'DUP' }
end
if guard == 'running' then
  if call.fence ~= ARGV[5] then return late() end
  if call.state ~= 'running' then
    if call.result_sha256 == ARGV[12] then return { 'DUP' } end
    return late()
  end
elseif guard == 'lost' then
  local lease = redis.call('ZSCORE', P .. 'leases', call.member)
  if call.state ~= 'running' or call.fence ~= ARGV[5] or (lease and tonumber(lease) > NOW) then
    return { 'REFUSED', call.state }
  end
elseif guard == 'deadline_over' then
  local waiting = call.state == 'queued' or call.state == 'awaiting_approval'
  if not waiting or tonumber(call.deadline_ms) > NOW then return { 'REFUSED', call.state } end
elseif guard == 'repeats' then
  if call.state ~= 'queued' or not repeats_unknown(call) then return { 'REFUSED', call.state } end
elseif guard == 'undecided' then
  if call.state ~= 'awaiting_approval' or tonumber(call.approval_expires_ms) <= NOW then
    return { 'REFUSED', call.state }
  end
elseif guard == 'approval_over' then
  if call.state ~= 'awaiting_approval' or tonumber(call.approval_expires_ms) > NOW then
    return { 'REFUSED', call.state }
  end
elseif call.state ~= guard then
  return { 'REFUSED', call.state }
end

local state, outcome, error_class, error_code = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local inbox_result, seq, why = ARGV[13], nil, 'the run is closed'
if run.status == 'open' then seq, why = append_listed(20, tonumber(ARGV[19]), ARGV[14], call) end
if not seq then
  -- The outcome could not be journaled: the record says so, and nothing else of this result
  -- is given out.
  run.status, inbox_result = 'failed', ''
  state, outcome, error_class, error_code = 'failed', 'system_error', 'system', 'journal.append_failed'
else
  redis.call('HSET', call.hash, 'result', ARGV[10], 'result_blob', ARGV[11])
end
redis.call('HSET', call.hash, 'result_sha256', ARGV[12])
-- Only a question that stands now ends with its call, whatever the closer saw of it. A decision
-- that cannot be journaled did not happen: the question ends with its run.
local decision = ''
if call.state == 'awaiting_approval' then
  decision = seq and ARGV[17] ~= '' and ARGV[17] or 'cancelled'
  redis.call('HSET', call.hash, 'approval_state', decision)
end
if decision == 'denied' then
  redis.call('HSET', call.hash, 'decided_by', (string.gsub(ARGV[14], '^user:', '')),
    'decided_ms', NOW, 'comment', ARGV[#ARGV])
end
if call.fence == '0' then give_back(call) end
if guard == 'lost' then
  -- Whatever the lost worker still sends is late.
  redis.call('HINCRBY', call.hash, 'fence', 1)
  count('lease_expired:' .. call.queue, 1)
end
if ARGV[18] == '1' then
  redis.call('ZADD', P .. 'dead_letters', NOW, call.member)
  count('dead_letter:' .. call.queue, 1)
end
if error_code == 'tool.outcome_unknown' then
  redis.call('HSET', RUN, unknown_field(call.tool, call.args_sha256), call.key)
  -- The model may repeat its own arguments, and a person those that were approved instead.
  local asked = redis.call('HGET', call.hash, 'asked_args_sha256')
  if asked then redis.call('HSET', RUN, unknown_field(call.tool, asked), call.key) end
end
if decision ~= '' then count_approval(call, decision) end
if guard == 'running' then call.ran_ms = since(call.started_ms) end
settle(run, call, state, outcome, error_class, error_code, inbox_result)
-- A person's no counts, and so does the refusal of a repeat where nobody is there to ask.
if decision == 'denied' or (guard == 'repeats' and state == 'denied') then drift(run, 'denied') end
if ARGV[15] ~= '' then begin_end(run, ARGV[15], ARGV[16]) end
finalise(run)
if not seq then return { 'JOURNAL_FAILED', why } end
return { 'OK', seq }
