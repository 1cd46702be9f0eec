-- What a MySQL or MariaDB server has counted since it was started, of all its clients.
--
-- answers: text text
SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Bytes_received', 'Bytes_sent');
