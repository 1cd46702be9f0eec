-- Ends a connection. Its number is a part of the text: MySQL takes parameters in statements that change or read rows, and in no
-- others (error 6413). The token is not used: the right to read transactions by their connections covers those of all users, so it
-- is not needed here.
KILL CONNECTION {connection};
