-- When the server was started, by which copies of one server differ.
SELECT 'started at ' || pg_postmaster_start_time()
