#!lua flags=allow-oom
-- Handle one dead letter: claim its redrive, aim it at a run, settle it, or discard the letter.
--
-- ARGV: prefix, run_id, call_key, op, then by op:
--   claim: nonce, by, whether its effect may happen twice (0|1)
--   aim: number of the redrive, run_id of the new call
--   settle: number of the redrive, accepted | refused, new call as run_id.call_key, code of a
--           refusal
--   discard: by
-- Returns for claim: {CLAIMED, n, target run or '', by, ms} | {PENDING, the same of the redrive
--         that was claimed before} | {EFFECT_UNKNOWN}; for aim: {OK, target run}: the first aim
--         stands; for settle and discard: {OK} | {DUP}; for discard also {PENDING, n, '', by, ms};
--         for all: {REDRIVEN, as, by, ms} | {DISCARDED, by, ms} | {STALE} | {NO_LETTER}
--         | {NO_CALL}: the record is past its retention, and the letter is dropped with it.
-- A redrive is a new call; this record only says of it, and only once, where it is to be made.
-- Whoever finds a claimed redrive goes on with it: the new call has one id, so it is made once.
-- Whoever cannot go on settles it as refused. If its call was made by then, and did not end before
-- any worker claimed it, the redrive is accepted instead, and the answer says so.
-- keys: run (r), call (rw), call of the redrive (r), dead_letters (w), totals (w)

local call, op = read_call(ARGV[3]), ARGV[4]
if not call.state then
  redis.call('ZREM', P .. 'dead_letters', call.member)
  return { 'NO_CALL' }
end
local told = read(call.hash, 'error_code', 'redriven_as', 'redriven_by', 'redriven_ms',
  'discarded_by', 'discarded_ms', 'redrives', 'redriving_nonce', 'redriving_into', 'redriving_by',
  'redriving_ms', 'redriving_call')
-- Every letter can be handled, one with a damaged record too; and what such a record makes fail
-- must fail before the first write, or half a change would stay.
local queue = call.queue or 'none'
local is_listed = redis.call('ZSCORE', P .. 'dead_letters', call.member)

local function pending(word)
  return { word, tonumber(told.redrives) or 0, told.redriving_into or '',
    told.redriving_by or '', tonumber(told.redriving_ms) or 0 }
end

-- No redrive stands any more.
local function let_go()
  redis.call('HDEL', call.hash, 'redriving_nonce', 'redriving_into', 'redriving_by', 'redriving_ms',
    'redriving_call')
end

-- The letter is off the list for good.
local function close(field)
  redis.call('ZREM', P .. 'dead_letters', call.member)
  let_go()
  count(field .. ':' .. queue, 1)
end

if not is_listed then
  if told.redriven_as then
    if op == 'settle' and told.redriven_as == ARGV[7] then return { 'DUP' } end
    return { 'REDRIVEN', told.redriven_as, told.redriven_by or '',
      tonumber(told.redriven_ms) or 0 }
  elseif told.discarded_by then
    if op == 'discard' and told.discarded_by == ARGV[5] then return { 'DUP' } end
    return { 'DISCARDED', told.discarded_by, tonumber(told.discarded_ms) or 0 }
  end
  return { 'NO_LETTER' }
end

if op == 'claim' then
  if told.error_code == 'tool.outcome_unknown' and ARGV[7] ~= '1' then
    return { 'EFFECT_UNKNOWN' }
  end
  if told.redriving_nonce then
    return pending(told.redriving_nonce == ARGV[5] and 'CLAIMED' or 'PENDING')
  end
  local run = read_run()
  local into = run.status == 'open' and not run.ending and RUN_ID or ''
  local n = redis.call('HINCRBY', call.hash, 'redrives', 1)
  redis.call('HSET', call.hash, 'redriving_nonce', ARGV[5], 'redriving_by', ARGV[6],
    'redriving_ms', NOW)
  if into ~= '' then redis.call('HSET', call.hash, 'redriving_into', into) end
  return { 'CLAIMED', n, into, ARGV[6], NOW }
end

if op == 'discard' then
  if told.redriving_nonce then return pending('PENDING') end
  redis.call('HSET', call.hash, 'discarded_by', ARGV[5], 'discarded_ms', NOW)
  close('dead_letter_discarded')
  return { 'OK' }
end

if not told.redriving_nonce or told.redrives ~= ARGV[5] then return { 'STALE' } end
if op == 'aim' then
  redis.call('HSETNX', call.hash, 'redriving_into', ARGV[6])
  return { 'OK', redis.call('HGET', call.hash, 'redriving_into') }
end
local function accept(new_call)
  redis.call('HSET', call.hash, 'redriven_as', new_call, 'redriven_by', told.redriving_by or '',
    'redriven_ms', NOW)
  close('dead_letter_redriven')
end
if ARGV[6] == 'refused' then
  local made = told.redriving_call
  local new = made and read(hash_named(made), 'state', 'fence')
  if new and not (TERMINAL[new.state] and new.fence == '0') then
    accept(made)
    return { 'REDRIVEN', made, told.redriving_by or '', NOW }
  end
  let_go()
  redis.call('HSET', call.hash, 'redrive_refused', ARGV[8])
  return { 'OK' }
end
accept(ARGV[7])
return { 'OK' }
