#!lua
-- Append one event of a run that is not a call's transition, once per event_id.
--
-- ARGV: prefix, run_id, event_id, digest, type, level, actor, payload
-- Returns {OK, seq} | {DUP, seq} | {CONFLICT, seq} | {RUN_CLOSED, status} | {NO_RUN}
--       | {JOURNAL_FAILED, why}.
-- keys: run (rw), run:journal (w), run:event_ids (w), journal:all (w)

local run = read_run()
if not run.status then return { 'NO_RUN' } end
local known = redis.call('HGET', RUN .. ':event_ids', ARGV[3])
if known then
  local seq, digest = string.match(known, '^(%d+) (.+)$')
  return { digest == ARGV[4] and 'DUP' or 'CONFLICT', tonumber(seq) }
end
if run.status ~= 'open' then return { 'RUN_CLOSED', run.status } end
local seq, why = append(ARGV[5], ARGV[6], ARGV[7], ARGV[3], ARGV[8])
if not seq then return { 'JOURNAL_FAILED', why } end
redis.call('HSET', RUN .. ':event_ids', ARGV[3], seq .. ' ' .. ARGV[4])
return { 'OK', seq }
