-- Settings of the server by their upper-case names. information_schema.global_variables is MariaDB's; MySQL has its own in
-- performance_schema, and lets everybody read either by SHOW, which cannot be prepared: so each is asked for by itself.
-- answers: text text
SELECT 'VERSION', CAST(VERSION() AS CHAR)
UNION ALL SELECT 'READ_ONLY', CAST(@@read_only AS CHAR)
UNION ALL SELECT 'INNODB_READ_ONLY', CAST(@@innodb_read_only AS CHAR)
UNION ALL SELECT 'INNODB_FLUSH_LOG_AT_TRX_COMMIT', CAST(@@innodb_flush_log_at_trx_commit AS CHAR)
UNION ALL SELECT 'LOG_BIN', CAST(@@log_bin AS CHAR)
UNION ALL SELECT 'SYNC_BINLOG', CAST(@@sync_binlog AS CHAR)
UNION ALL SELECT 'BINLOG_FORMAT', CAST(@@binlog_format AS CHAR)
/*M! UNION ALL SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'WSREP_ON' */
