//! What the errors of PostgreSQL mean (PostgreSQL manual, appendix A, "PostgreSQL Error Codes").

use crate::server::Meaning;
use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

/// The code of most that `PgBouncer` says itself, whatever it says.
const PROTOCOL_VIOLATION: &str = "08P01";

/// Parts of the messages of `PgBouncer` that are not about a connection that broke (its source, `disconnect_client`). It hands on
/// what the server said to it in a message of its own.
const OF_PGBOUNCER: [(&str, Meaning); 10] = [
    ("unsupported startup parameter", Meaning::Refused),
    ("no such database", Meaning::NoDatabase),
    ("does not exist", Meaning::NoDatabase),
    ("no such user", Meaning::NotLetIn),
    ("authentication failed", Meaning::NotLetIn),
    ("SSL required", Meaning::TlsOnly),
    ("no more connections allowed", Meaning::Exhausted("connections")),
    ("too many connections", Meaning::Exhausted("connections")),
    ("connection slots are reserved", Meaning::Exhausted("connections")),
    ("query_wait_timeout", Meaning::Exhausted("connections")),
];

pub(super) fn meaning(error: &sqlx::Error) -> Meaning {
    match error {
        sqlx::Error::Database(error) if is_of_another_statement(&**error) => Meaning::Pooled,
        sqlx::Error::Database(error) => match error.code().as_deref() {
            None => Meaning::Refused,
            Some(PROTOCOL_VIOLATION) => of_pooler(error.message()),
            Some(code) => of(code),
        },
        error => Meaning::of_the_driver(error),
    }
}

/// The server itself says that the statement of this name has other parameters: somebody else has prepared it. Poolers say
/// much else with this code, and have no routine of this name.
fn is_of_another_statement(error: &dyn DatabaseError) -> bool {
    let error = error.try_downcast_ref::<PgDatabaseError>();
    error.is_some_and(|error| {
        error.code() == PROTOCOL_VIOLATION && error.routine() == Some("exec_bind_message")
    })
}

fn of_pooler(message: &str) -> Meaning {
    let found = OF_PGBOUNCER.iter().find(|(part, _)| message.contains(part));
    found.map_or(Meaning::Broken, |(_, meaning)| *meaning)
}

pub(crate) fn of(code: &str) -> Meaning {
    match code {
        "40001" | "40P01" => Meaning::Deadlock,
        "55P03" => Meaning::Locked,
        // Cancelled: by statement_timeout, or by a hand.
        "57014" => Meaning::TooSlow,
        // A row; a table, or an index, that somebody else has made meanwhile.
        "23505" | "42P07" => Meaning::Duplicate,
        "28000" | "28P01" => Meaning::NotLetIn,
        "42501" => Meaning::Denied,
        "25006" => Meaning::ReadOnly,
        "53300" => Meaning::Exhausted("connections"),
        "53100" => Meaning::Exhausted("room on its disk"),
        "53200" => Meaning::Exhausted("memory"),
        "42P01" => Meaning::NoTable,
        "3D000" => Meaning::NoDatabase,
        // A prepared statement that is there already, or is not there: the driver never does that by itself.
        "42P05" | "26000" => Meaning::Pooled,
        // Shut down, crashed, cannot take connections now; idle for too long, in a transaction or out of one. The
        // message may come after the commit and before the answer.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => Meaning::Ended,
        // Statement completion unknown: said by what stands for several servers.
        "40003" => Meaning::Broken,
        code if code.starts_with("08") => Meaning::Broken,
        _ => Meaning::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_decide_between_unknown_and_not_applied() {
        assert_eq!(of("40P01"), Meaning::Deadlock);
        assert_eq!(of("55P03"), Meaning::Locked);
        assert_eq!(of("57P01"), Meaning::Ended);
        assert_eq!(of("08006"), Meaning::Broken);
        assert_eq!(of("40003"), Meaning::Broken);
        assert_eq!(of("25006"), Meaning::ReadOnly);
        assert_eq!(of("42601"), Meaning::Refused);
    }

    #[test]
    fn pooler_message_that_cannot_pass_is_no_broken_connection() {
        assert_eq!(of_pooler("unsupported startup parameter: options"), Meaning::Refused);
        assert_eq!(of_pooler("no such database: shop"), Meaning::NoDatabase);
        let limit = "server login failed: FATAL too many connections for role \"lk\"";
        assert_eq!(of_pooler(limit), Meaning::Exhausted("connections"));
        assert_eq!(of_pooler("server conn crashed?"), Meaning::Broken);
    }
}
