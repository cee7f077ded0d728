#!lua
-- Take one call with its whole history before the queue, as one step (DESIGN 2).
--
-- ARGV: prefix, run_id, call_key, digest, state, cap_run, cap_turn, deadline_in_ms, envelope,
--       drift (denied | unknown | ''), run end (failed | ''), its code, outcome, error_class,
--       error_code, inbox result, approval expiry ms, alone (0|1), memory, number of field
--       arguments, number of events, field, value, ..., then per event: type, level, payload
-- state: queued | awaiting_approval | denied | failed. Caps of -1 do not exist. A call that must
-- be alone is refused while others of its run are open, and others while it is; one whose like
-- ended as outcome_unknown in this run is refused too, since it needs a person's approval; and
-- one whose id is that of a call of another turn that is still open.
-- A redrive of a dead letter is taken while it is the one that stands (`letter.lua`), and the
-- letter notes the call in the same step: what was given up is not made, nor given up what was made.
-- memory: what the run was taken to remember of approvals of this tool and version, '' for nothing;
-- '-' when that does not bear on the call, '!' when the person is told of the unknown outcome. The
-- run's field is `remembered:`.
-- Returns {OK, seq} | {DUP, state} (same call again) | {CONFLICT, state | open | redrive}
--       | {BUDGET, run|turn}
--       | {CALLS_PENDING} | {AFTER_FINISH} | {REPEATS_UNKNOWN} | {REMEMBERED, memory} (another
--       than was taken) | {RUN_CLOSED, status} | {NO_RUN} | {JOURNAL_FAILED, why}.
-- keys: run (rw), call (w), call of the letter (rw), run:journal (w), run:open (w), run:calls (w),
--       queued:{queue} (w), deadlines (w), approvals (w), run:approvals (w), asked:{queue} (w),
--       {queue} (w), rings (w), inbox (w), journal:all (w), totals (w), totals:tools (w),
--       totals:rules (w)

local call_key, state = ARGV[3], ARGV[5]
local run = read_run()
if not run.status then return { 'NO_RUN' } end
local call = read_call(call_key)
if call.state then
  if call.digest == ARGV[4] then return { 'DUP', call.state } end
  return { 'CONFLICT', call.state }
end
if run.status ~= 'open' or run.ending then return { 'RUN_CLOSED', run.ending or run.status } end

local fields, events = tonumber(ARGV[20]), tonumber(ARGV[21])
local given = {}
for i = 22, 21 + fields, 2 do given[ARGV[i]] = ARGV[i + 1] end
call.call_id, call.tool, call.turn, call.attempt = given.call_id, given.tool, given.turn, 1
call.queue, call.client, call.state = given.queue, given.client, 'requested'

local unknown
local letter = given.redrive_number and hash_named(given.redrive_of)
if not TERMINAL[state] then
  if letter then
    local stands = read(letter, 'redrives', 'redriving_nonce')
    if not stands.redriving_nonce or stands.redrives ~= given.redrive_number then
      return { 'CONFLICT', 'redrive' }
    end
  end
  if redis.call('HEXISTS', RUN, 'id:' .. call.call_id) == 1 then return { 'CONFLICT', 'open' } end
  if run.finishing then return { 'AFTER_FINISH' } end
  if ARGV[18] == '1' and redis.call('SCARD', RUN .. ':open') > 0 then
    return { 'CALLS_PENDING' }
  end
  -- A person must be told too: a call that waits for another reason is judged anew.
  unknown = redis.call('HGET', RUN, unknown_field(call.tool, given.args_sha256))
  if unknown and ARGV[19] ~= '!' then return { 'REPEATS_UNKNOWN' } end
  if ARGV[19] ~= '-' and ARGV[19] ~= '!' then
    local memory = redis.call('HGET', RUN, remembered_field(call.tool, given.spec_hash)) or ''
    if memory ~= ARGV[19] then return { 'REMEMBERED', memory } end
  end
  local refused = ask_budget(call.tool, call.turn, tonumber(ARGV[6]), tonumber(ARGV[7]))
  if refused then return { 'BUDGET', refused } end
  if state == 'queued' then reserve(call.tool, tonumber(ARGV[6])) end
end
local seq, why = append_listed(22 + fields, events, 'runtime:dispatcher', call)
if not seq then return { 'JOURNAL_FAILED', why } end

redis.call('HSET', call.hash, 'state', state, 'attempt', 1, 'fence', 0, 'digest', ARGV[4],
  'accepted_ms', NOW, 'patience_ms', ARGV[8], 'deadline_ms', NOW + tonumber(ARGV[8]),
  'reserved', state == 'queued' and '1' or '0', 'control', ARGV[18],
  unpack(ARGV, 22, 21 + fields))
redis.call('SADD', RUN .. ':calls', call_key)
count('accepted:' .. call.queue, 1)

if TERMINAL[state] then
  settle(run, call, state, ARGV[13], ARGV[14], ARGV[15], ARGV[16])
  if ARGV[10] ~= '' then drift(run, ARGV[10]) end
  if ARGV[11] ~= '' then begin_end(run, ARGV[11], ARGV[12]) end
  finalise(run)
  return { 'OK', seq }
end
redis.call('SADD', RUN .. ':open', call_key)
redis.call('HSET', RUN, 'id:' .. call.call_id, call_key)
if letter then redis.call('HSET', letter, 'redriving_call', RUN_ID .. '.' .. call_key) end
count('open:' .. call.queue .. ':' .. state, 1)
if state == 'queued' then
  if ARGV[18] == '1' then redis.call('HSET', RUN, 'finishing', call_key) end
  enqueue(call, ARGV[9], NOW + tonumber(ARGV[8]))
else
  local expires = ARGV[17]
  redis.call('HSET', call.hash, 'approval_state', 'pending', 'approval_expires_ms', expires,
    'asked_unknown', unknown or '')
  park(call, expires)
  count_approval(call, 'asked')
end
return { 'OK', seq }
