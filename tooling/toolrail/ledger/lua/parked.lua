#!lua flags=no-writes
-- Read one page of the calls that wait for a person, the first to expire first.
--
-- ARGV: prefix, run_id ('' for those of all runs), offset, limit
-- Returns {now ms, how many wait in all, approval record, ...}; of one run, in no order.
-- keys: approvals (r), run:open (r), call (r)

local out = { NOW, 0 }

local function add(hash)
  local call = read(hash, 'state', 'approval')
  if call.state ~= 'awaiting_approval' or not call.approval then return false end
  out[#out + 1] = call.approval
  return true
end

local offset, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
if RUN_ID ~= '' then
  for _, call_key in ipairs(redis.call('SMEMBERS', RUN .. ':open')) do
    if #out < limit + 2 and add(call_hash(call_key)) then out[2] = out[2] + 1 end
  end
  return out
end
out[2] = redis.call('ZCARD', P .. 'approvals')
local page = redis.call('ZRANGEBYSCORE', P .. 'approvals', '-inf', '+inf', 'LIMIT', offset, limit)
for _, member in ipairs(page) do
  local run_id, call_key = string.match(member, '^([^|]*)|(.*)$')
  add(P .. 'run:' .. run_id .. ':call:' .. call_key)
end
return out
