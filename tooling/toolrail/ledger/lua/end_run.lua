#!lua flags=allow-oom
-- Begin a run's end; it is complete when the last open call has its outcome.
--
-- ARGV: prefix, run_id, as (completed | failed | cancelled), code, actor
-- Returns {ENDED, status} | {ENDING, open call_key, ...} | {CALLS_PENDING, open call_key, ...}
--         (completing needs every call closed; nothing was changed) | {NO_RUN}.
-- keys: run (rw), run:open (r), run:journal (w), runs (w), ending (w), journal:all (w)

local run = read_run()
if not run.status then return { 'NO_RUN' } end
local open = redis.call('SMEMBERS', RUN .. ':open')
if run.status ~= 'open' and #open == 0 then
  finalise(run)
  return { 'ENDED', run.status }
end
if run.status == 'open' and not run.ending then
  if ARGV[3] == 'completed' and #open > 0 then return { 'CALLS_PENDING', unpack(open, 1, 100) } end
  if ARGV[3] == 'cancelled' then
    append('run_cancel_requested', 'info', ARGV[5], 'run.cancel_requested', '{}')
  end
  begin_end(run, ARGV[3], ARGV[4])
end
finalise(run)
if #open == 0 then return { 'ENDED', redis.call('HGET', RUN, 'status') } end
return { 'ENDING', unpack(open, 1, 1000) }
