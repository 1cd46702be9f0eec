-- Ends a connection. The token is not used: the right to read transactions by their connections covers those of all users, so it is
-- not needed here.
--
-- :1 number of the connection   :2 token
KILL CONNECTION :1;
