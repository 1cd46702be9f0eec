//! What the errors of PostgreSQL mean (PostgreSQL manual, appendix A, "PostgreSQL Error Codes").

use crate::server::ErrorClass;

/// The code of most that `PgBouncer` says itself, whatever it says.
const PROTOCOL_VIOLATION: &str = "08P01";

const NO_SIMPLE_PROTOCOL: ErrorClass = ErrorClass::Setting(
    "the pooler refuses the simple protocol, by which a session is set up",
    "set disable_pqexec = 0 in its configuration, or connect to the database itself",
);
/// The pooler came in between after the first use.
const POOLED: ErrorClass = ErrorClass::Setting(
    "a pooler gives a statement to another session than the one it was prepared in",
    "open the store again, which finds the pooler; or connect to the database itself",
);

/// Parts of the messages of `PgBouncer` that are not about a connection that broke (its source, `disconnect_client`). It hands on
/// what the server said to it in a message of its own. The first is the server's, of a statement of this name with other parameters:
/// somebody else has prepared it.
const OF_PGBOUNCER: [(&str, ErrorClass); 12] = [
    ("bind message supplies", POOLED),
    ("PQexec disallowed", NO_SIMPLE_PROTOCOL),
    ("unsupported startup parameter", ErrorClass::Refused),
    ("no such database", ErrorClass::Refused),
    ("does not exist", ErrorClass::Refused),
    ("no such user", ErrorClass::NotLetIn),
    ("authentication failed", ErrorClass::NotLetIn),
    ("SSL required", ErrorClass::NotLetIn),
    ("no more connections allowed", ErrorClass::Exhausted("connections")),
    ("too many connections", ErrorClass::Exhausted("connections")),
    ("connection slots are reserved", ErrorClass::Exhausted("connections")),
    ("query_wait_timeout", ErrorClass::Exhausted("connections")),
];

pub(super) fn error_class(error: &sqlx::Error) -> ErrorClass {
    match error {
        sqlx::Error::Database(error) => match error.code().as_deref() {
            None => ErrorClass::Refused,
            Some(PROTOCOL_VIOLATION) => class_of_pooler_message(error.message()),
            Some(code) => class_of_code(code),
        },
        error => ErrorClass::of_the_driver(error),
    }
}

fn class_of_pooler_message(message: &str) -> ErrorClass {
    let found = OF_PGBOUNCER.iter().find(|(part, _)| message.contains(part));
    found.map_or(ErrorClass::Broken, |(_, class)| *class)
}

pub(crate) fn class_of_code(code: &str) -> ErrorClass {
    match code {
        "40001" | "40P01" => ErrorClass::Deadlock,
        "55P03" => ErrorClass::Locked,
        // Cancelled: by statement_timeout, or by a hand.
        "57014" => ErrorClass::TooSlow,
        // A row; a table, or an index, that somebody else has made meanwhile.
        "23505" | "42P07" => ErrorClass::Duplicate,
        "28000" | "28P01" => ErrorClass::NotLetIn,
        "42501" => ErrorClass::Denied,
        "25006" => ErrorClass::ReadOnly,
        "53300" => ErrorClass::Exhausted("connections"),
        "53100" => ErrorClass::Exhausted("room on its disk"),
        "53200" => ErrorClass::Exhausted("memory"),
        // Division by zero, which `acquire.sql` alone does.
        "22012" => ErrorClass::TokensUsedUp,
        "42P01" => ErrorClass::NoTable,
        // Invalid schema name: also that there is none to make a table in.
        "3F000" => ErrorClass::NoSchema,
        // A prepared statement that is there already, or is not there: the driver never does that by itself.
        "42P05" | "26000" => POOLED,
        // Shut down, crashed, cannot take connections now, nor can this database (55000); idle for too long, in a transaction or out of one. The
        // message may come after the commit and before the answer.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "55000" => ErrorClass::Ended,
        // Statement completion unknown: said by what stands for several servers.
        "40003" => ErrorClass::Broken,
        code if code.starts_with("08") => ErrorClass::Broken,
        _ => ErrorClass::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_decides_between_unknown_and_not_applied() {
        assert_eq!(class_of_code("40P01"), ErrorClass::Deadlock);
        assert_eq!(class_of_code("55P03"), ErrorClass::Locked);
        assert_eq!(class_of_code("57P01"), ErrorClass::Ended);
        assert_eq!(class_of_code("55000"), ErrorClass::Ended, "allow_connections false");
        assert_eq!(class_of_code("08006"), ErrorClass::Broken);
        assert_eq!(class_of_code("40003"), ErrorClass::Broken);
        assert_eq!(class_of_code("25006"), ErrorClass::ReadOnly);
        assert_eq!(class_of_code("22012"), ErrorClass::TokensUsedUp);
        assert_eq!(class_of_code("42601"), ErrorClass::Refused);
    }

    #[test]
    fn pooler_message_that_cannot_pass_is_no_broken_connection() {
        assert_eq!(class_of_pooler_message("unsupported startup parameter: options"), ErrorClass::Refused);
        assert_eq!(class_of_pooler_message("no such database: shop"), ErrorClass::Refused);
        let limit = "server login failed: FATAL too many connections for role \"lk\"";
        assert_eq!(class_of_pooler_message(limit), ErrorClass::Exhausted("connections"));
        assert_eq!(class_of_pooler_message("server conn crashed?"), ErrorClass::Broken);
    }
}
