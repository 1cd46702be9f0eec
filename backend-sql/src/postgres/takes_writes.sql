-- 1 if the server takes writes, else 0: a transaction that is open goes on when the server, which has been read again, says that new
-- ones are read-only. A server that is replaced ends, and all its connections with it.
--
-- answers: int
SELECT CAST(CASE WHEN current_setting('default_transaction_read_only') = 'on' THEN 0 ELSE 1 END AS bigint);
