-- 1 if the server takes writes, else 0. Asked for and not tried: the writes of an administrator go through on a server that is
-- read-only. As text, which the variable may be or become. FOR UPDATE, by which a proxy sends it where writes go.
--
-- A server that was replaced by another in a planned switch-over is made read-only, keeps our connection, and has a row locked as
-- before, while the new one has it free.
--
-- answers: int
SELECT LOCATE(@@GLOBAL.read_only, '0OFF') > 0 FROM DUAL FOR UPDATE;
