//! Small locks over databases, and what people get wrong in them.

pub(crate) mod advisory;
pub(crate) mod deferred;
pub(crate) mod held;
pub(crate) mod row;
mod server;

pub(crate) use server::{mariadb, postgres, sqlite};

use crate::subject::Address;
use leasehold_core::{Attempt, Claim, Error, ErrorKind, FencingToken, Grant, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{Connection, Executor};
use std::future::Future;

/// MariaDB's time in microseconds, in no time zone.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// Waits for an answer as long as the address says.
async fn in_time<T>(address: &Address, answer: impl Future<Output = sqlx::Result<T>>) -> Result<T> {
    match tokio::time::timeout(address.patience, answer).await {
        Ok(answer) => answer.map_err(|error| unknown(error.to_string())),
        Err(_) => Err(unknown("no reply in time".to_owned())),
    }
}

fn unknown(why: String) -> Error {
    Error::new(ErrorKind::Indeterminate, why)
}

fn granted(token: i64) -> Attempt {
    Attempt::Granted(Grant::new(FencingToken::new(token.unsigned_abs())))
}

/// The owner as it is stored: its digits.
fn owner_of(claim: &Claim) -> Vec<u8> {
    claim.owner().to_hex().into_bytes()
}

/// These bytes as MariaDB writes them.
fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("X'{digits}'")
}

/// The one connection of a lock, made again after a failure.
async fn connected<'a>(
    connection: &'a mut Option<MySqlConnection>,
    address: &Address,
) -> sqlx::Result<&'a mut MySqlConnection> {
    if connection.is_none() {
        *connection = Some(connect(address).await?);
    }
    Ok(connection.as_mut().unwrap())
}

/// A session as MariaDB makes it; what the driver would set by itself, the time zone above all, is left alone.
async fn connect(address: &Address) -> sqlx::Result<MySqlConnection> {
    let (host, port) = address.server.split_once(':').unwrap();
    let options = MySqlConnectOptions::new().host(host).port(port.parse().unwrap()).username("root");
    let options = options.database("locks").ssl_mode(MySqlSslMode::Disabled).timezone(None);
    MySqlConnection::connect_with(&options).await
}

/// Runs a statement of this text, with no parameters, in one round trip.
async fn run(connection: &mut MySqlConnection, statement: &str) -> sqlx::Result<u64> {
    let statement = sqlx::AssertSqlSafe(statement.to_owned());
    Ok(connection.execute(statement).await?.rows_affected())
}
