-- answers: text
SELECT version();
