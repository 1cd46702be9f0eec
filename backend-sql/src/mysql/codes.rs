//! What the errors of MySQL and MariaDB mean (MySQL "Server Error Message Reference", MariaDB "Error Codes").

use crate::server::ErrorClass;
use sqlx::mysql::MySqlDatabaseError;

pub(super) fn error_class(error: &sqlx::Error) -> ErrorClass {
    match error {
        sqlx::Error::Database(error) => error
            .try_downcast_ref::<MySqlDatabaseError>()
            .map_or(ErrorClass::Refused, |error| class_of_number(error.number())),
        error => ErrorClass::of_the_driver(error),
    }
}

fn class_of_number(number: u16) -> ErrorClass {
    match number {
        // ER_LOCK_DEADLOCK; ER_CHECKREAD: the row has changed since the snapshot (MariaDB 11, Galera);
        // ER_TRANSACTION_ROLLBACK_DURING_COMMIT: by another node of a group; ER_NEED_REPREPARE.
        1213 | 1020 | 3101 | 1615 => ErrorClass::Deadlock,
        // ER_LOCK_WAIT_TIMEOUT, which MariaDB also says for NOWAIT; ER_LOCK_NOWAIT of MySQL.
        1205 | 3572 => ErrorClass::Locked,
        // ER_STATEMENT_TIMEOUT of MariaDB, ER_QUERY_TIMEOUT of MySQL, ER_QUERY_INTERRUPTED.
        1969 | 3024 | 1317 => ErrorClass::TooSlow,
        1062 => ErrorClass::Duplicate,
        // Access denied: for the password, or for want of TLS or of a certificate; by a plugin. ER_SECURE_TRANSPORT_REQUIRED.
        1045 | 1698 | 3159 => ErrorClass::NotLetIn,
        // The password has expired (also in a statement); the account is locked (MySQL, MariaDB).
        1820 | 1862 | 3118 | 4151 => ErrorClass::NotLetIn,
        // Access denied: to the database, for the table, for a column, for what takes a privilege; to end a connection.
        1044 | 1142 | 1143 | 1227 | 1095 => ErrorClass::Denied,
        // ER_NO_SUCH_THREAD, to KILL.
        1094 => ErrorClass::NoConnection,
        // --read-only, a read-only transaction, --super-read-only, InnoDB's own read-only mode, a schema that is read-only. Out of
        // range is `{one_if_writable}` on a server that is read-only, to a user who may write all the same: no other number is so large.
        1290 | 1792 | 1836 | 1874 | 3989 | 1690 => ErrorClass::ReadOnly,
        1040 | 1203 | 1226 => ErrorClass::Exhausted("connections"),
        // ER_MAX_PREPARED_STMT_COUNT_REACHED, of all clients together.
        1461 => ErrorClass::Exhausted("room for prepared statements"),
        // Disk full: while sorting, the table, error in writing, the temporary file.
        1021 | 1114 | 1026 | 3 => ErrorClass::Exhausted("room on its disk"),
        // ER_CANT_CREATE_THREAD, to who connects.
        1135 => ErrorClass::Exhausted("threads"),
        1037 | 1038 | 1041 => ErrorClass::Exhausted("memory"),
        1146 => ErrorClass::NoTable,
        // Shutdown in progress; killed (MariaDB, MySQL); ended by an idle time-out: idle_transaction_timeout, wait_timeout; the
        // server could not read or write.
        1053 | 1927 | 3169 | 4031 | 1152 | 1159 | 1161 | 1158 | 1160 => ErrorClass::Ended,
        // Codes of the client's library, said by a pooler that lost its own connection to the server: ProxySQL says 2013 of a
        // statement that it has sent (its issue 2982), MaxScale 2003. The server may not have noticed, and keep a transaction
        // open. ProxySQL says 9001 when it has found no server in time, perhaps to send a statement to once more.
        2002 | 2003 | 2006 | 2013 | 2055 | 9001 => ErrorClass::Broken,
        // WSREP has not yet prepared the node for application use; the server is offline; it has blocked this host.
        1047 | 3032 | 1129 => ErrorClass::Unreachable,
        _ => ErrorClass::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_decides_between_unknown_and_not_applied() {
        assert_eq!(class_of_number(1213), ErrorClass::Deadlock);
        assert_eq!(class_of_number(1205), ErrorClass::Locked);
        assert_eq!(class_of_number(1927), ErrorClass::Ended);
        assert_eq!(class_of_number(3169), ErrorClass::Ended);
        assert_eq!(class_of_number(1135), ErrorClass::Exhausted("threads"));
        for of_a_pooler in [2003, 2006, 2013, 9001] {
            assert_eq!(class_of_number(of_a_pooler), ErrorClass::Broken, "{of_a_pooler}");
        }
        assert_eq!(class_of_number(1290), ErrorClass::ReadOnly);
        assert_eq!(class_of_number(1064), ErrorClass::Refused);
        let io = sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into());
        assert_eq!(error_class(&io), ErrorClass::Broken);
    }
}
