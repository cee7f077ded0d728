#!lua flags=allow-oom
-- Ring again for a queued call whose doorbell is gone.
--
-- ARGV: prefix, run_id, call_key, attempt, ring number seen, envelope
-- Returns {OK} | {REFUSED, state}: it was claimed, or rung by somebody else, meanwhile.
-- keys: call (rw), queued:{queue} (w), {queue} (w), rings (w), totals (w)

local call = read_call(ARGV[3])
if call.state ~= 'queued' or call.attempt ~= ARGV[4] then
  return { 'REFUSED', call.state or 'none' }
end
local ring = redis.call('ZSCORE', P .. 'queued:' .. call.queue, call.member)
if not ring or tonumber(ring) ~= tonumber(ARGV[5]) then return { 'REFUSED', call.state } end
local queued_ms = call.queued_ms
enqueue(call, ARGV[6], call.deadline_ms)
redis.call('HSET', call.hash, 'queued_ms', queued_ms)
redis.call('HINCRBY', call.hash, 'rings', 1)
count('rerung:' .. call.queue, 1)
return { 'OK' }
