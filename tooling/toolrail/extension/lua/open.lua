#!lua
-- Open the one session of an extension and replace its tools, both or neither.
--
-- ARGV: prefix, extension, session, holder, concurrency, dead_ms, version, protocol, tools, digest
-- Returns {'open'} | {'taken', holder, ms until that session ends unless it is renewed}.
-- keys: session (rw), extension (w), extensions (w), ext_changes (w)

local held = redis.call('HMGET', SESSION, 'session', 'holder')
if held[1] and held[1] ~= ARGV[3] then
  return { 'taken', held[2] or '', redis.call('PTTL', SESSION) }
end
redis.call('HSET', SESSION, 'session', ARGV[3], 'holder', ARGV[4], 'concurrency', ARGV[5],
  'dead_ms', ARGV[6])
redis.call('PEXPIRE', SESSION, ARGV[6])
redis.call('HSET', EXTENSION, 'version', ARGV[7], 'protocol', ARGV[8], 'tools', ARGV[9],
  'digest', ARGV[10])
list()
hint('open')
return { 'open' }
