#!lua
-- Give one attempt of a call to one worker, before any effect.
--
-- ARGV: prefix, run_id, call_key, attempt, nonce, worker, lease_ms, digest of the worker's tools
--       ('' claims whatever the call wants)
-- Returns {OK, fence, queue_ms, value, ...} in the order of FIELDS | {DUP_RUNNING} | {DUP_DONE}
--       | {STALE} | {CANCELLED} | {EXPIRED} | {RUN_CLOSED} | {NO_CALL} | {JOURNAL_FAILED, why}
--       | {ELSEWHERE}: this worker cannot run this version of the tool; nothing was changed.
--       | {REPEATS_UNKNOWN}: its like ended as outcome_unknown since it was queued, or approved;
--         it runs no more without a person (`ask_again.lua`, or `finish.lua` where there is none).
-- The same nonce again gets the same answer: a reply may be lost with its connection.
-- keys: run (rw), call (rw), run:journal (w), leases (w), queued:{queue} (w), deadlines (w),
--       journal:all (w), totals (w), tools:{digest} (r)

-- What a worker needs to run the call; `records.CLAIM_FIELDS` is the same list.
local FIELDS = { 'call_id', 'tool', 'source', 'queue', 'spec_hash', 'args', 'args_blob', 'caller',
  'tenant', 'profile', 'turn', 'timeout_ms', 'max_output_bytes', 'max_output_tokens',
  'policy_hash', 'client', 'retry_safe', 'max_attempts', 'attempt', 'edited' }

local call = read_call(ARGV[3])
if not call.state then return { 'NO_CALL' } end

local function granted()
  local out = { 'OK', tonumber(call.fence), tonumber(call.started_ms) - tonumber(call.queued_ms) }
  local values = redis.call('HMGET', call.hash, unpack(FIELDS))
  for i, value in ipairs(values) do out[3 + i] = value or '' end
  return out
end

if call.state == 'running' then
  if call.nonce == ARGV[5] then return granted() end
  return { call.attempt == ARGV[4] and 'DUP_RUNNING' or 'STALE' }
end
if TERMINAL[call.state] then return { 'DUP_DONE' } end
if call.state ~= 'queued' or call.attempt ~= ARGV[4] then return { 'STALE' } end
local run = read_run()
if run.status ~= 'open' or run.ending then return { 'RUN_CLOSED' } end
if call.cancel then return { 'CANCELLED' } end
if tonumber(call.deadline_ms) <= NOW then return { 'EXPIRED' } end
if ARGV[8] ~= '' then
  -- A doorbell may reach anybody, so only the record says who can answer it.
  local known = redis.call('HGET', P .. 'tools:' .. ARGV[8], call.tool)
  if not known or known ~= redis.call('HGET', call.hash, 'spec_hash') then
    return { 'ELSEWHERE' }
  end
end
if repeats_unknown(call) then return { 'REPEATS_UNKNOWN' } end

local payload = cjson.encode({ attempt = tonumber(call.attempt), worker = ARGV[6],
  queue = call.queue, timeout_ms = tonumber(call.timeout_ms),
  queue_ms = NOW - tonumber(call.queued_ms), policy_hash = call.policy_hash or cjson.null })
local seq, why = append('tool_call_started', 'info', 'worker:' .. ARGV[6],
  call.key .. '.' .. call.attempt .. '.started', payload, call)
if not seq then return { 'JOURNAL_FAILED', why } end
call.fence = redis.call('HINCRBY', call.hash, 'fence', 1)
call.started_ms = NOW
redis.call('HSET', call.hash, 'state', 'running', 'nonce', ARGV[5], 'worker', ARGV[6],
  'started_ms', NOW)
redis.call('ZADD', P .. 'leases', NOW + tonumber(ARGV[7]), call.member)
redis.call('ZREM', P .. 'queued:' .. call.queue, call.member)
redis.call('ZREM', P .. 'deadlines', call.member)
count('open:' .. call.queue .. ':queued', -1)
count('open:' .. call.queue .. ':running', 1)
count('attempts:' .. call.queue .. ':' .. (call.attempt == '1' and 'first' or 'retried'), 1)
count_wait(call)
return granted()
