#!lua flags=allow-oom
-- Show which extensions are listed and which are alive now.
--
-- ARGV: prefix, '' (no single extension)
-- Returns now in ms, then per extension: name, digest, session or '', 'leaving' or ''.
-- keys: extensions (r), extension (r), session (r)

local out = { NOW }
for _, name in ipairs(redis.call('ZRANGEBYSCORE', P .. 'extensions', NOW, '+inf')) do
  local key = P .. 'ext:' .. name
  local session = redis.call('HMGET', key .. ':session', 'session', 'leaving')
  out[#out + 1] = name
  out[#out + 1] = redis.call('HGET', key, 'digest') or ''
  out[#out + 1] = session[1] or ''
  out[#out + 1] = session[2] and 'leaving' or ''
end
return out
