-- Settings of the server. Everybody sees how many standbys are connected; what they are is seen by superusers and monitors.
-- answers: text text
SELECT 'takes_no_writes', CASE WHEN pg_is_in_recovery() THEN 'the server is a replica, and takes no writes'
    WHEN current_setting('default_transaction_read_only') = 'on'
    THEN 'default_transaction_read_only is on: the server, this database or this role takes no writes' END
UNION ALL SELECT 'may_notify', CAST(has_function_privilege('pg_catalog.pg_notify(text, text)', 'execute') AS text)
UNION ALL SELECT 'fsync', current_setting('fsync')
UNION ALL SELECT 'full_page_writes', current_setting('full_page_writes')
UNION ALL SELECT 'synchronous_standby_names', current_setting('synchronous_standby_names')
UNION ALL SELECT 'synchronous_commit', current_setting('synchronous_commit')
UNION ALL SELECT 'standbys', CAST(count(*) AS text) FROM pg_stat_replication
UNION ALL SELECT 'has_replicas', CAST(EXISTS (SELECT FROM pg_stat_replication WHERE application_name <> '') AS text);
