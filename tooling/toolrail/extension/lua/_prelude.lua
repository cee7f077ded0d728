-- What the scripts of the extension bridge share; the loader puts it before each of them.
--
-- Is: time, the keys of one extension, hints. Is not: anything of runs, calls' records or policy.
--
-- Signature of every script: ARGV[1] prefix, ARGV[2] extension, then its own arguments.
-- No script takes KEYS: a cell is one primary (DESIGN 2.1), so keys are spelled here, once.
-- A session is named by the nonce of its hello; `call` is `call_key.attempt`.
--
-- key                                 type    TTL                     meaning
-- {prefix}extensions                  zset    7 days after last beat  extension -> listed until, ms
-- {prefix}ext:{extension}             hash    7 days after last beat  version, protocol, tools, digest
-- {prefix}ext:{extension}:session     hash    dead_ms after last beat session, holder, concurrency,
--                                                                     dead_ms, leaving; is liveness
-- {prefix}ext:{extension}:{s}:calls   stream  10 min after last use   messages to the session
-- {prefix}ext:{extension}:{s}:asked   zset    10 min after last use   call -> deadline, ms; unanswered
-- {prefix}ext:{extension}:{s}:begun   set     10 min after last use   those whose function started
-- {prefix}ext_replies:{worker}        stream  10 min after last use   answers to one worker
-- {prefix}ext_changes                 stream  1 day after last write  hints; the hashes are the truth

local P, NAME = ARGV[1], ARGV[2]
local EXTENSION = P .. 'ext:' .. NAME
local SESSION = EXTENSION .. ':session'
local TIME = redis.call('TIME')
local NOW = TIME[1] * 1000 + math.floor(TIME[2] / 1000)
local LISTED_MS, DAY_MS, KEPT_MS = 7 * 86400000, 86400000, 600000

local function of_session(session, what) return EXTENSION .. ':' .. session .. ':' .. what end

local function is_current(session) return redis.call('HGET', SESSION, 'session') == session end

local function list()
  redis.call('ZADD', P .. 'extensions', NOW + LISTED_MS, NAME)
  redis.call('PEXPIRE', P .. 'extensions', LISTED_MS)
  redis.call('PEXPIRE', EXTENSION, LISTED_MS)
end

local function hint(change)
  redis.call('XADD', P .. 'ext_changes', 'MAXLEN', '~', 1000, '*', 'extension', NAME,
    'change', change)
  redis.call('PEXPIRE', P .. 'ext_changes', DAY_MS)
end

local function send(key, ...)
  redis.call('XADD', key, 'MAXLEN', '~', 1000, '*', ...)
  redis.call('PEXPIRE', key, KEPT_MS)
end
