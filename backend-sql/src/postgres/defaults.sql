-- The settings of a new session that are changed only from one value, for a user that may not call set_config().
SELECT current_setting('synchronous_commit'), current_setting('transaction_timeout', true)
