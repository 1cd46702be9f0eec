-- What the server says it is: the id of its data, which its copies share, and the timeline, which is a new one after a promotion.
SELECT 'system ' || (SELECT system_identifier FROM pg_control_system())
    || CASE WHEN pg_is_in_recovery() THEN ', in recovery' ELSE ', timeline ' || left(pg_walfile_name(pg_current_wal_lsn()), 8) END
