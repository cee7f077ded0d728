#!lua flags=allow-oom
-- Begin a run's end; it is complete when the last open call has its outcome.
--
-- ARGV: prefix, run_id, as (completed | failed | cancelled), code, actor
-- Returns {ENDED, status} | {ENDING, open call_key, ...} | {CALLS_PENDING, open call_key, ...}
--         (completing needs every call closed; nothing was changed) | {NO_RUN}. Of many open calls
--         some 100 are named, since the reaper asks every second.
-- keys: run (rw), run:open (r), run:journal (w), runs (w), ending (w), journal:all (w)

local run = read_run()
if not run.status then return { 'NO_RUN' } end
local open = RUN .. ':open'
local is_open = redis.call('SCARD', open) > 0
if run.status ~= 'open' and not is_open then
  finalise(run)
  return { 'ENDED', run.status }
end
if run.status == 'open' and not run.ending then
  if ARGV[3] == 'completed' and is_open then
    return { 'CALLS_PENDING', unpack(redis.call('SRANDMEMBER', open, 100)) }
  end
  if ARGV[3] == 'cancelled' then
    append('run_cancel_requested', 'info', ARGV[5], 'run.cancel_requested', '{}')
  end
  begin_end(run, ARGV[3], ARGV[4])
end
finalise(run)
if not is_open then return { 'ENDED', redis.call('HGET', RUN, 'status') } end
return { 'ENDING', unpack(redis.call('SRANDMEMBER', open, 100)) }
