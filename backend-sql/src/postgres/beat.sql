-- What a holder says, so that the server does not take its transaction for idle. That its locks count need not be asked: a
-- server that is replaced ends, and all its connections with it.
--
-- answers: int
SELECT CAST(1 AS bigint);
