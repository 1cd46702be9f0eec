-- Whether writes go to several nodes. MySQL has no such variable, and does not execute the comment.
-- answers: text
SELECT COALESCE(/*M! CAST(@@wsrep_on AS CHAR), */ '0')
