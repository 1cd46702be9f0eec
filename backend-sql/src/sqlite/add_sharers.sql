-- Schema 2 added this column. A program that knows schema 1 goes on over a connection that is open, and refuses the table when it opens
-- it the next time.
ALTER TABLE {table} ADD COLUMN sharers TEXT NOT NULL DEFAULT '';
