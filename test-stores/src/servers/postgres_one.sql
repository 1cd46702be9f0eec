UPDATE pg_database SET datistemplate = false
DROP DATABASE template0
DROP DATABASE template1
