-- Schema 2 added this column. A program that knows schema 1 goes on with the table, and serves exclusive holds.
ALTER TABLE {table} ADD COLUMN sharers TEXT NOT NULL DEFAULT '';
