-- What locking needs, for the user of the locks:
GRANT SELECT, INSERT, UPDATE ON {table} TO {user};
