-- What the server says it is. MySQL keeps an id beside its data; MariaDB has none that lasts.
SELECT CAST(/*!80000 @@server_uuid */ /*M! CONCAT(@@hostname, ':', @@port, ' with server_id ', @@server_id) */ AS CHAR) FROM DUAL FOR UPDATE
