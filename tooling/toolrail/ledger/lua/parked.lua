#!lua flags=no-writes
-- Read one page of the calls that wait for a person, the first to expire first.
--
-- ARGV: prefix, run_id ('' for those of all runs), offset, limit
-- Returns {now ms, how many wait in all, approval record, ...}.
-- keys: approvals (r), run:approvals (r), call (r)

local zset = (RUN_ID == '' and P or RUN .. ':') .. 'approvals'
local out = { NOW, redis.call('ZCARD', zset) }
local page = redis.call('ZRANGEBYSCORE', zset, '-inf', '+inf', 'LIMIT', ARGV[3], ARGV[4])
for _, member in ipairs(page) do
  local run_id, call_key = string.match(member, '^([^|]*)|(.*)$')
  if RUN_ID ~= '' then run_id, call_key = RUN_ID, member end
  local call = read(P .. 'run:' .. run_id .. ':call:' .. call_key, 'state', 'approval')
  if call.state == 'awaiting_approval' and call.approval then out[#out + 1] = call.approval end
end
return out
