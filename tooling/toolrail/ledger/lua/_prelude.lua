-- What every ledger script shares; the loader puts it before each of them.
--
-- Is: time, totals, journal append, budget units, closing a call, ending a run. Is not: any
-- decision of policy.
--
-- Signature of every script: ARGV[1] prefix, ARGV[2] run_id, then its own arguments.
-- No script takes KEYS: a cell is one primary (DESIGN 2.1), so keys are spelled here, once.
--
-- key                                type    TTL                        meaning
-- {prefix}run:{run}                  hash    retention after run's end  status, seq, budget counters
-- {prefix}run:{run}:call:{call_key}  hash    retention after run's end  one call's whole truth
-- {prefix}run:{run}:journal          stream  retention after run's end  entry id is the sequence
-- {prefix}run:{run}:open             set     empty at the run's end     call_keys without an outcome
-- {prefix}run:{run}:approvals        zset    empty at the run's end     call_key -> expiry, ms
-- {prefix}run:{run}:calls            set     gone at the run's end      call_keys that get a TTL then
-- {prefix}run:{run}:event_ids        hash    retention after run's end  event_id -> "seq digest"
-- {prefix}inbox:{client}             stream  one day after last write   outcomes for one client
-- {prefix}nudge:{worker}             stream  one hour after last write  cancel hints for one worker
-- {prefix}tools:{digest}             hash    one week after last use    tool -> version it can run
-- {prefix}journal:all                stream  permanent, trimmed         (run, seq, type, call_key)
-- {prefix}queued:{queue}             zset    permanent                  run|call -> ring number
-- {prefix}leases                     zset    permanent                  run|call -> lease end, ms
-- {prefix}deadlines                  zset    permanent                  run|call -> deadline, ms
-- {prefix}approvals                  zset    permanent                  run|call -> expiry, ms
-- {prefix}asked:{queue}              zset    permanent                  run|call -> when parked, ms
-- {prefix}runs                       zset    permanent                  run -> last activity, ms
-- {prefix}ending                     zset    permanent                  run -> looked at again, ms
-- {prefix}ended                      zset    permanent                  run -> since, ms: many calls
-- {prefix}dead_letters               zset    permanent                  run|call -> when, ms
-- {prefix}rings                      string  permanent                  counter of doorbells rung
-- {prefix}totals                     hash    permanent                  fleet counters
-- {prefix}totals:tools               hash    permanent, bounded         counters by tool
-- {prefix}totals:rules               hash    permanent, bounded         denials by layer and rule
-- {prefix}{queue}                    list    permanent                  doorbells (kombu's list)

local P, RUN_ID = ARGV[1], ARGV[2]
local RUN = P .. 'run:' .. RUN_ID
local JOURNAL = RUN .. ':journal'
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local JOURNAL_ALL_LENGTH, INBOX_LENGTH = 100000, 10000
local DAY_MS, HOUR_MS = 86400000, 3600000
-- A run with more calls gets their TTLs from the reaper, page by page, instead of in one step.
local EXPIRED_AT_ONCE = 1000

local TERMINAL = { completed = true, failed = true, denied = true }

local function count(field, by)
  redis.call('HINCRBY', P .. 'totals', field, by)
end

-- Facts for the exporter, beyond the books that must balance; the loader can leave them out.
local MEASURED = true
-- So many names get a place of their own, once and for ever: a counter that moved would jump.
local TOOLS_MAX, RULES_MAX, NAME_BYTES = 500, 100, 256

-- The first edge, in ms, that holds a duration; the edges are those of `metrics/buckets.py`.
local function edge_of(edges, ms)
  for i = 1, #edges do
    if ms <= edges[i] then return edges[i] end
  end
  return 'inf'
end

local function duration_edge(ms)
  return edge_of({ 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000, 120000,
    300000 }, ms)
end

-- From a moment of the record to now, in whole ms; a clock that was set back makes it 0.
local function since(moment_ms)
  return math.max(NOW - (tonumber(moment_ms) or NOW), 0)
end

-- Count one duration, and add it to the sum.
local function observe(name, edge, labels, ms)
  count(name .. ':' .. edge .. ':' .. labels, 1)
  count(name .. ':ms:' .. labels, ms)
end

-- The attempt waited in its queue until now.
local function count_wait(call)
  if not MEASURED then return end
  local ms = since(call.queued_ms)
  observe('wait', edge_of({ 5, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000,
    300000, 600000, 1800000 }, ms), call.queue, ms)
end

-- What became of a call that needs approval: asked | approved | denied | expired | cancelled
-- | superseded | remembered. All but the first and the last end a wait, now, which began with the
-- question and not with the call: one that was queued may be asked about later.
local function count_approval(call, decision)
  if not MEASURED then return end
  count('approval:' .. call.queue .. ':' .. decision, 1)
  if decision == 'asked' or decision == 'remembered' then return end
  local ms = since(call.asked_ms)
  observe('decided', edge_of({ 5000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000,
    3600000, 14400000, 43200000, 86400000 }, ms), call.queue, ms)
end

-- Count one under a name if that has, or now gets, one of the `most` places that the field `names`
-- of the hash counts; under `_other` if not. Returns the name that was counted under.
local function count_named(key, head, group, name, names, most)
  local field = head .. group .. ':' .. name
  if redis.call('HINCRBY', key, field, 1) > 1 or name == '_other' then return name end
  local mark = 'name:' .. group .. ':' .. name
  if redis.call('HEXISTS', key, mark) == 1 then return name end
  if #name <= NAME_BYTES and tonumber(redis.call('HGET', key, names) or 0) < most then
    redis.call('HINCRBY', key, names, 1)
    redis.call('HSET', key, mark, NOW)
    return name
  end
  redis.call('HDEL', key, field)
  redis.call('HINCRBY', key, head .. group .. ':_other', 1)
  return '_other'
end

local function count_denial(payload)
  if not MEASURED then return end
  -- An error here would leave half a transition, so nothing in a count may raise one.
  local is_json, told = pcall(cjson.decode, payload)
  if not is_json or type(told) ~= 'table' or told.denied_by ~= 'policy' then return end
  local layer = type(told.layer) == 'string' and told.layer or 'none'
  local rule = type(told.rule) == 'string' and told.rule or 'none'
  count_named(P .. 'totals:rules', 'denied:', layer, rule, 'names:' .. layer, RULES_MAX)
end

-- The call, still in the state it is leaving, has its outcome now; `ran_ms` if a worker ran it
-- to its end. Time that a person took to decide is left out.
local function count_finish(call, outcome, error_code)
  if not MEASURED then return end
  local decided = call.approval_state == 'approved'
  local ms = since(decided and call.decided_ms or call.accepted_ms)
  if call.state == 'awaiting_approval' then ms = 0 end
  observe('took', duration_edge(ms), call.queue .. ':' .. outcome, ms)
  -- A tool that no dispatcher knows (queue `none`) is a name that a model made up.
  local tool, ran = call.queue == 'none' and '_other' or call.tool, call.ran_ms
  local head = 'ran:' .. (ran and duration_edge(ran) or 'never') .. ':' .. outcome .. ':'
  local key = P .. 'totals:tools'
  tool = count_named(key, head, call.queue, tool, 'names', TOOLS_MAX)
  if ran then redis.call('HINCRBY', key, 'ran:ms::' .. call.queue .. ':' .. tool, ran) end
  if outcome == 'over_budget' then
    count('over_budget:' .. (error_code == 'tool.turn_budget_exhausted' and 'turn' or 'run'), 1)
  end
end

-- A hash read as a table; absent fields are false.
local function read(key, ...)
  local names = { ... }
  local values = redis.call('HMGET', key, ...)
  local out = {}
  for i, name in ipairs(names) do out[name] = values[i] end
  return out
end

local function read_run()
  return read(RUN, 'status', 'ending', 'ending_code', 'retention_ms', 'client', 'finishing')
end

local function call_hash(call_key) return RUN .. ':call:' .. call_key end

-- The record of a call of any run that is named as run_id.call_key.
local function hash_named(name)
  local run_id, call_key = string.match(name, '^([^.]+)%.(.+)$')
  return P .. 'run:' .. (run_id or '') .. ':call:' .. (call_key or '')
end

local function read_call(call_key)
  local c = read(call_hash(call_key), 'state', 'attempt', 'fence', 'nonce', 'worker', 'cancel',
    'queue', 'tool', 'turn', 'call_id', 'client', 'digest', 'result_sha256', 'queued_ms',
    'started_ms', 'deadline_ms', 'timeout_ms', 'policy_hash', 'reserved', 'approval_state',
    'approval_expires_ms', 'args_sha256', 'patience_ms', 'control', 'accepted_ms', 'asked_ms',
    'decided_ms')
  c.key = call_key
  c.hash = call_hash(call_key)
  c.member = RUN_ID .. '|' .. call_key
  return c
end

-- Nothing of this run may start any more; see semantics 2.7. Told out of band, in the record.
local function journal_broke(why)
  redis.call('HSET', RUN, 'status', 'failed', 'code', 'journal.append_failed',
    'detail', string.sub(why, 1, 200), 'ended_ms', NOW)
  redis.call('ZADD', P .. 'ending', NOW, RUN_ID)
  count('journal_append_errors', 1)
end

-- Append one event under the next sequence number. Returns the number, or nil and the reason;
-- a refused append leaves the sequence as it was and fails the run.
local function append(kind, level, actor, event_id, payload, call)
  local seq = redis.call('HINCRBY', RUN, 'seq', 1)
  local reply
  if call then
    reply = redis.pcall('XADD', JOURNAL, seq .. '-0', 'type', kind, 'ts', NOW, 'level', level,
      'actor', actor, 'id', event_id, 'p', payload, 'call', call.key, 'call_id', call.call_id,
      'name', call.tool, 'turn', call.turn)
  else
    reply = redis.pcall('XADD', JOURNAL, seq .. '-0', 'type', kind, 'ts', NOW, 'level', level,
      'actor', actor, 'id', event_id, 'p', payload)
  end
  if type(reply) == 'table' and reply.err then
    redis.call('HINCRBY', RUN, 'seq', -1)
    journal_broke(reply.err)
    return nil, reply.err
  end
  redis.call('XADD', P .. 'journal:all', 'MAXLEN', '~', JOURNAL_ALL_LENGTH, '*',
    'run', RUN_ID, 'seq', seq, 'type', kind, 'call', call and call.key or '')
  return seq
end

-- Append ARGV[first..] as n triples (type, level, payload) of one call.
local function append_listed(first, n, actor, call)
  local seq, why
  for i = 0, n - 1 do
    local at = first + 3 * i
    local event_id = call.key .. '.' .. call.attempt .. '.' .. ARGV[at] .. '.' .. i
    seq, why = append(ARGV[at], ARGV[at + 1], actor, event_id, ARGV[at + 2], call)
    if not seq then return nil, why end
  end
  for at = first, first + 3 * (n - 1), 3 do
    if ARGV[at] == 'tool_call_denied' then count_denial(ARGV[at + 2]) end
    -- A person's approval is appended alone; in a list it is one that the run remembered.
    if ARGV[at] == 'tool_call_approved' then count_approval(call, 'remembered') end
  end
  return seq
end

local function within(field, cap)
  return cap < 0 or tonumber(redis.call('HGET', RUN, field) or 0) < cap
end

-- Reserve one unit of the run's cap for a tool; -1 means no cap. Returns nil, or 'run'.
local function reserve(tool, cap_run)
  if not within('used:' .. tool, cap_run) then return 'run' end
  redis.call('HINCRBY', RUN, 'used:' .. tool, 1)
  return nil
end

-- A turn's cap counts what was asked for, parked calls too (semantics 3.6); a person is not
-- asked about a call that the run has no unit for. Returns nil, or the cap that refused.
local function ask_budget(tool, turn, cap_run, cap_turn)
  local turn_field = 'turn:' .. turn .. ':' .. tool
  if not within('used:' .. tool, cap_run) then return 'run' end
  if not within(turn_field, cap_turn) then return 'turn' end
  redis.call('HINCRBY', RUN, turn_field, 1)
  return nil
end

-- The unit of a call that never started goes back to its run; the turn has been asked, so its
-- count stays (semantics 3.6).
local function give_back(call)
  if call.reserved == '1' then
    redis.call('HINCRBY', RUN, 'used:' .. call.tool, -1)
    redis.call('HSET', call.hash, 'reserved', '0')
  end
end

-- The field of a run that remembers a tool and arguments whose effect may have happened.
local function unknown_field(tool, args_sha256)
  return 'unknown:' .. tool .. ':' .. args_sha256
end

-- The call of the run whose effect may have happened and that this one would repeat; nil when
-- there is none, when its approver was told of it, or when the tool may run twice.
local function repeats_unknown(call)
  local unknown = redis.call('HGET', RUN, unknown_field(call.tool, call.args_sha256 or ''))
  if not unknown then return nil end
  local known = read(call.hash, 'retry_safe', 'told_unknown')
  if known.retry_safe == '1' or known.told_unknown == unknown then return nil end
  return unknown
end

-- The field of a run that remembers an approval of one version of a tool.
local function remembered_field(tool, spec_hash)
  return 'remembered:' .. tool .. ':' .. (spec_hash or '')
end

-- Put a call into its queue's books and, when the broker is this Redis, ring its doorbell.
local function enqueue(call, envelope, deadline_ms)
  local ring = redis.call('INCR', P .. 'rings')
  redis.call('ZADD', P .. 'queued:' .. call.queue, ring, call.member)
  redis.call('ZADD', P .. 'deadlines', deadline_ms, call.member)
  redis.call('HSET', call.hash, 'queued_ms', NOW, 'rung_ms', NOW)
  if envelope ~= '' then redis.call('LPUSH', P .. call.queue, envelope) end
end

-- The call waits for a person, in the lists of all, of its run and of its queue, until it is
-- unparked; the exporter reads from the last since when the oldest waits.
local function park(call, expires_ms)
  redis.call('ZADD', P .. 'approvals', expires_ms, call.member)
  redis.call('ZADD', RUN .. ':approvals', expires_ms, call.key)
  redis.call('ZADD', P .. 'asked:' .. call.queue, NOW, call.member)
  redis.call('HSET', call.hash, 'asked_ms', NOW)
end

local function unpark(call)
  redis.call('ZREM', P .. 'approvals', call.member)
  redis.call('ZREM', RUN .. ':approvals', call.key)
  redis.call('ZREM', P .. 'asked:' .. call.queue, call.member)
end

local function finalise(run)
  if run.status == 'open' and not run.ending then return end
  if redis.call('SCARD', RUN .. ':open') > 0 then return end
  if run.status == 'open' then
    local level = run.ending == 'failed' and 'error' or 'info'
    local payload = cjson.encode({ code = run.ending_code or '' })
    redis.call('HSET', RUN, 'status', run.ending, 'code', run.ending_code or '', 'ended_ms', NOW)
    append('run_' .. run.ending, level, 'runtime:ledger', 'run.end', payload)
  end
  local keep = tonumber(run.retention_ms) or DAY_MS
  redis.call('PEXPIRE', RUN, keep)
  redis.call('PEXPIRE', JOURNAL, keep)
  redis.call('PEXPIRE', RUN .. ':event_ids', keep)
  local calls = RUN .. ':calls'
  if redis.call('SCARD', calls) <= EXPIRED_AT_ONCE then
    for _, call_key in ipairs(redis.call('SMEMBERS', calls)) do
      redis.call('PEXPIRE', call_hash(call_key), keep)
    end
    redis.call('DEL', calls)
  else
    redis.call('PEXPIRE', calls, keep)
    redis.call('ZADD', P .. 'ended', NOW, RUN_ID)
  end
  redis.call('ZREM', P .. 'ending', RUN_ID)
  redis.call('ZREM', P .. 'runs', RUN_ID)
end

-- From now on nothing of the run starts; it ends when its last open call has an outcome.
-- A failure overrides a completion that has not happened yet, and nothing else does.
local function begin_end(run, as, code)
  if run.ending and not (run.ending == 'completed' and as == 'failed') then return end
  run.ending, run.ending_code = as, code
  redis.call('HSET', RUN, 'ending', as, 'ending_code', code)
  redis.call('ZADD', P .. 'ending', NOW, RUN_ID)
end

-- One more refusal of a run; past its limit the run fails, or a model would go on for ever.
local function drift(run, field)
  local drifted = redis.call('HINCRBY', RUN, field, 1)
  local limit = tonumber(redis.call('HGET', RUN, 'max_' .. field) or 10)
  if drifted > limit then begin_end(run, 'failed', 'run.drift_limit') end
end

-- Give a call its one outcome: record, books, totals, inbox. The journal was written before.
local function settle(run, call, state, outcome, error_class, error_code, inbox_result)
  local was = call.state
  redis.call('HSET', call.hash, 'state', state, 'outcome', outcome, 'error_class', error_class,
    'error_code', error_code, 'ended_ms', NOW)
  redis.call('SREM', RUN .. ':open', call.key)
  redis.call('ZREM', P .. 'leases', call.member)
  redis.call('ZREM', P .. 'deadlines', call.member)
  if was == 'queued' then redis.call('ZREM', P .. 'queued:' .. call.queue, call.member) end
  if was == 'awaiting_approval' then unpark(call) end
  if was ~= 'requested' then count('open:' .. call.queue .. ':' .. was, -1) end
  count('finished:' .. call.queue .. ':' .. outcome, 1)
  count_finish(call, outcome, error_code)
  redis.call('HDEL', RUN, 'id:' .. call.call_id)
  if run.finishing == call.key then redis.call('HDEL', RUN, 'finishing') end
  local inbox = P .. 'inbox:' .. call.client
  redis.call('XADD', inbox, 'MAXLEN', '~', INBOX_LENGTH, '*', 'run', RUN_ID, 'call', call.key,
    'state', state, 'r', inbox_result)
  redis.call('PEXPIRE', inbox, DAY_MS)
end
