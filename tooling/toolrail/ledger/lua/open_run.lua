#!lua
-- Open a run, once.
--
-- ARGV: prefix, run_id, digest, created payload, snapshot payload, n, field, value, ...
-- Returns {OK, seq} | {DUP, status} (same digest) | {CONFLICT, status}.
-- keys: run (w), run:journal (w), runs (w), journal:all (w), totals (w)

local status = read(RUN, 'status', 'digest')
if status.status then
  if status.digest == ARGV[3] then return { 'DUP', status.status } end
  return { 'CONFLICT', status.status }
end
redis.call('HSET', RUN, 'status', 'open', 'digest', ARGV[3], 'seq', 0, 'opened_ms', NOW,
  unpack(ARGV, 7, 6 + tonumber(ARGV[6])))
local seq, why = append('run_created', 'info', 'runtime:client', 'run.created', ARGV[4])
if seq then
  seq, why = append('policy_snapshot_frozen', 'info', 'runtime:client', 'run.policy', ARGV[5])
end
if not seq then return { 'JOURNAL_FAILED', why } end
redis.call('ZADD', P .. 'runs', NOW, RUN_ID)
count('runs_opened', 1)
return { 'OK', seq }
