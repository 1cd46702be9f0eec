-- The statement of a holder, so that its transaction is not idle. Whether its locks count need not be asked: a
-- server that is replaced ends, and all its connections with it.
--
-- answers: int
SELECT CAST(1 AS bigint);
