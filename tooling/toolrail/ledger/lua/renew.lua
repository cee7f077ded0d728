#!lua flags=allow-oom
-- Renew the leases of all calls one worker runs, in one step, and carry back their cancels.
--
-- ARGV: prefix, '' (no single run), lease_ms, then per call: run_id, call_key, fence
-- Returns per call, in order: 1 renewed | 0 lost (stop, discard) | 2 renewed, but cancel it.
-- keys: run (r), call (r), leases (w)

local out, lease_end = {}, NOW + tonumber(ARGV[3])
for i = 4, #ARGV, 3 do
  local run_key = P .. 'run:' .. ARGV[i]
  local call = read(run_key .. ':call:' .. ARGV[i + 1], 'state', 'fence', 'cancel')
  if call.state ~= 'running' or call.fence ~= ARGV[i + 2] then
    out[#out + 1] = 0
  else
    redis.call('ZADD', P .. 'leases', 'XX', lease_end, ARGV[i] .. '|' .. ARGV[i + 1])
    local run = read(run_key, 'status', 'ending')
    local stop = call.cancel or run.status ~= 'open'
      or run.ending == 'failed' or run.ending == 'cancelled'
    out[#out + 1] = stop and 2 or 1
  end
end
return out
