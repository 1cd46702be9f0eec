-- 1 if the server takes writes, else 0: a transaction that is open goes on when the server, which has been read again, says that new
-- ones are read-only. A server that is replaced ends, and all its connections with it. On a standby every transaction is read-only.
-- FOR UPDATE, by which a proxy sends it where writes go.
--
-- answers: int
SELECT CAST(CASE WHEN 'on' IN (current_setting('default_transaction_read_only'), current_setting('transaction_read_only'))
                 THEN 0 ELSE 1 END AS bigint) FOR UPDATE;
