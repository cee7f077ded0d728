#!lua flags=allow-oom
-- End a session at once, or let it take no new calls; tell the extension why if there is a reason.
--
-- ARGV: prefix, extension, session, 'leaving'|'closed', reason
-- Returns 1 done | 0 it had ended already.
-- keys: session (rw), calls (w), ext_changes (w)

if not is_current(ARGV[3]) then return 0 end
if ARGV[4] == 'leaving' then
  redis.call('HSET', SESSION, 'leaving', '1')
else
  redis.call('DEL', SESSION)
end
if ARGV[5] ~= '' then send(of_session(ARGV[3], 'calls'), 'closed', ARGV[5]) end
hint(ARGV[5] ~= '' and 'refused' or ARGV[4])
return 1
