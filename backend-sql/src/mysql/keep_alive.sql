-- What a holder says, so that the server does not take its transaction for idle.
--
-- A server that was replaced by another in a planned switch-over is made read-only, keeps our connection, and has the row
-- locked as before; and whoever asks the new one finds it free. So the answer is whether the server takes writes: 0 if not.
-- It is asked for and not tried: an administrator's writes go through nevertheless. As text, which it may be or become.
--
-- answers: int
SELECT CAST(@@GLOBAL.read_only AS CHAR) IN ('0', 'OFF');
