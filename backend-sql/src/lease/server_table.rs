//! The table of leases on a server. The databases share their statements, except those in [`Leases`](crate::server::Leases).

mod optimistic;
mod readers;
mod renewal;
mod statements;
#[cfg(all(test, feature = "postgres"))]
mod tests;

use super::poller::Poller;
use super::{Granting, LeaseRow, LeaseTable, ReaderTable as _, RowState};
use crate::names::range;
use crate::server::{
    Answer, MAX_CLAIMS, Mode, PoolClass, Server, Statement, StatementKind, Value, name_the_right,
};
use async_trait::async_trait;
use leasehold_core::{
    Claim, Error, ErrorKind, FencingToken, Finding, KnownServers, LockName, Namespace, OwnerId, Purge,
    Result, Semantics,
};
use statements::{Ending, Statements};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// What MySQL and MariaDB answer in the place of a token if an exclusive owner holds the row.
const HELD_BY_ONE: u64 = FencingToken::MAX_COUNTED + 1;

/// One row per name, on a server.
#[derive(Debug)]
pub(crate) struct ServerTable {
    server: Server,
    namespace: Namespace,
    statements: Statements,
    semantics: Semantics,
    poller: Poller,
    /// False once these credentials were refused a statement that sends a message, and not the same without it.
    may_notify: AtomicBool,
}

impl ServerTable {
    pub(crate) fn new(server: Server, namespace: &Namespace, semantics: Semantics) -> Self {
        let leases = &server.dialect().texts().leases;
        let statements = Statements::new(server.dialect().texts(), &server.target().table);
        let poller = Poller::new(&server);
        let may_notify = AtomicBool::new(leases.notify.is_some());
        Self { server, namespace: namespace.clone(), statements, semantics, poller, may_notify }
    }

    fn stored(&self, name: &LockName) -> Vec<u8> {
        self.namespace.stored(name.as_str()).into_bytes()
    }

    /// The token in the answer to `acquire.sql`: a row of PostgreSQL, or the `LAST_INSERT_ID()` of MySQL and MariaDB.
    /// `None` if another owner holds the row.
    fn granted_token(&self, answer: &Answer) -> Result<Option<FencingToken>> {
        let Some(row) = answer.rows.first() else {
            let is_token = (1..=FencingToken::MAX_COUNTED).contains(&answer.last_id);
            return Ok(is_token.then(|| FencingToken::new(answer.last_id)));
        };
        let token = row.first().and_then(read_token);
        token.map(Some).ok_or_else(|| self.server.unreadable())
    }

    /// The outcome of a statement that was sent twice and refused the second time: unless the row is the claim's, the first one
    /// has granted nothing. A first one that still runs, on a server that has reset its connection, may grant one lease that
    /// no claim uses.
    async fn settled(
        &self,
        claim: &Claim,
        (answer, was_sent_before): (Result<Answer>, bool),
    ) -> Result<Answer> {
        match answer {
            Err(refused) if was_sent_before && refused.kind() != ErrorKind::Indeterminate => {
                let look = match refused.kind() {
                    // A server that takes no writes locks no row, and shows it all the same.
                    ErrorKind::Unavailable => self.statements.look.for_claims(1).0,
                    _ => &self.statements.look_where_writes_go,
                };
                Err(if self.row_by(look, claim).await?.is_some() { unknown(refused) } else { refused })
            }
            answer => answer,
        }
    }

    /// The row, if it is the claim's. Read when no answer says whether it was granted, and where it would have been.
    async fn row_of(&self, claim: &Claim) -> Result<Option<LeaseRow>> {
        self.row_by(&self.statements.look_where_writes_go, claim).await
    }

    async fn row_by(&self, look: &Statement, claim: &Claim) -> Result<Option<LeaseRow>> {
        let name = Value::bytes(self.stored(claim.name()));
        let answer = self.server.read(PoolClass::Renewal, look, &[name]).await.map_err(unknown)?;
        let row = answer.rows.first().and_then(|row| read_row(row));
        Ok(row.filter(|row| row.owner == claim.owner()))
    }

    /// Ends something. A message to waiters is a hint: without the right to send one, the statement does without.
    async fn end(
        &self,
        class: PoolClass,
        kind: StatementKind,
        statement: &Ending,
        values: &[Value],
    ) -> Result<Answer> {
        if !self.may_notify.load(Ordering::Relaxed) {
            return self.server.execute(class, kind, &statement.silent, values).await;
        }
        let denied = match self.server.execute(class, kind, &statement.notifying, values).await {
            Err(denied) if denied.kind() == ErrorKind::Denied => denied,
            answer => return answer,
        };
        // A right that is missing is found before anything is done.
        let silent = self.server.execute(class, kind, &statement.silent, values).await;
        if silent.is_ok() && self.may_notify.swap(false, Ordering::Relaxed) {
            tracing::warn!(target: "leasehold", error = %denied, "no waiter is told of a release: see config check");
        }
        silent
    }

    /// What a statement of a holder that has changed no row means: that nothing is held, on a server that takes writes.
    async fn nothing_held(&self) -> Result<bool> {
        self.server.must_take_writes().await.map(|()| false)
    }

    /// The row of a name, read by `look.sql`.
    async fn read<T>(
        &self,
        name: &LockName,
        read: impl Fn(&[Value]) -> Option<T> + Send,
    ) -> Result<Option<T>> {
        let (look, values) = (self.statements.look.for_claims(1).0, [Value::bytes(self.stored(name))]);
        let answer = self.server.read(PoolClass::Attempt, look, &values).await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        read(row).map(Some).ok_or_else(|| self.foreign(name))
    }

    /// Grants a free row by one statement.
    async fn grant_at_once(&self, claim: &Claim) -> Result<Granting> {
        let values = [
            Value::bytes(self.stored(claim.name())),
            Value::bytes(claim.owner().to_bytes()),
            micros(claim.ttl()),
            Value::text(claim.holder()),
            micros(self.server.target().timeout),
        ];
        let sent = self.server.grant(&self.statements.acquire, &values).await;
        let answer = self.settled(claim, sent).await?;
        let token = match is_untold(&answer) {
            true => self.row_of(claim).await?.map(|row| row.token),
            false => self.granted_token(&answer)?,
        };
        let held = Granting::Held { may_be_readers: answer.last_id != HELD_BY_ONE };
        Ok(token.map_or(held, Granting::Granted))
    }

    /// Deletes the rows of these names that are still idle; their number.
    async fn forget_idle(&self, names: &[&Value], idle: Duration) -> Result<u64> {
        let (statement, size) = self.statements.purge.for_claims(names.len());
        let places = names.iter().chain(std::iter::repeat(&names[0])).take(size);
        let values: Vec<Value> =
            std::iter::once(micros(idle)).chain(places.map(|name| (*name).clone())).collect();
        Ok(self.server.write(PoolClass::Attempt, statement, &values).await?.changed)
    }
}

#[async_trait]
impl LeaseTable for ServerTable {
    async fn grant(&self, claim: &Claim) -> Result<Granting> {
        let granting = match self.server.target().mode {
            Mode::Optimistic => self.grant_by_version(claim).await?,
            Mode::Lease | Mode::ForUpdate => self.grant_at_once(claim).await?,
        };
        if let Granting::Granted(_) = granting {
            self.server.target().headroom.holds_for(claim.ttl());
        }
        Ok(granting)
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        // Nearly always one ttl, and one statement. In the order of names: two programs that lock the same rows do so in
        // the same order.
        let mut by_ttl: BTreeMap<Duration, Vec<(&Claim, usize)>> = BTreeMap::new();
        for (at, claim) in claims.iter().enumerate() {
            by_ttl.entry(claim.ttl()).or_default().push((claim, at));
        }
        let mut answers: Vec<Result<bool>> = claims.iter().map(|_| Ok(false)).collect();
        for (ttl, mut alike) in by_ttl {
            alike.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
            for some in alike.chunks(MAX_CLAIMS) {
                let claims: Vec<&Claim> = some.iter().map(|(claim, _)| *claim).collect();
                for ((_, at), answer) in some.iter().zip(self.renew_alike(ttl, &claims).await) {
                    answers[*at] = answer;
                }
            }
        }
        answers
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool> {
        let name = self.stored(claim.name());
        let values = [micros(linger), Value::bytes(name.clone()), Value::bytes(claim.owner().to_bytes())];
        let released =
            self.end(PoolClass::Renewal, StatementKind::End, &self.statements.release, &values).await;
        self.poller.released(&name);
        if has_ended(&released?) { Ok(true) } else { self.nothing_held().await }
    }

    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        let name = self.stored(name);
        let values = [Value::bytes(name.clone()), Value::int(token.get())];
        let ended =
            self.end(PoolClass::Attempt, StatementKind::End, &self.statements.end_grant, &values).await;
        self.poller.released(&name);
        if has_ended(&ended?) { Ok(true) } else { self.nothing_held().await }
    }

    async fn look(&self, name: &LockName) -> Result<Option<LeaseRow>> {
        self.read(name, read_row).await
    }

    /// It uses the connection for renewals, because a renewal waits for it.
    async fn look_at_each(&self, names: &[&LockName]) -> Result<Vec<LeaseRow>> {
        let mut rows = Vec::with_capacity(names.len());
        for some in names.chunks(MAX_CLAIMS) {
            let (statement, size) = self.statements.look.for_claims(some.len());
            let values: Vec<Value> =
                some.iter().cycle().take(size).map(|name| Value::bytes(self.stored(name))).collect();
            let answer = self.server.read(PoolClass::Renewal, statement, &values).await?;
            // A foreign row is left out, so that it does not hide the others.
            rows.extend(answer.rows.iter().filter_map(|row| read_row(row)));
        }
        Ok(rows)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<LeaseRow>> {
        let (first, behind) = range(self.namespace.stored(prefix));
        let values = [Value::bytes(first), Value::bytes(behind)];
        let answer = self.server.read(PoolClass::Attempt, &self.statements.list, &values).await?;
        Ok(answer.rows.iter().filter_map(|row| read_row(row)).collect())
    }

    async fn changed(&self, claim: &Claim) {
        self.poller.changed(self.stored(claim.name()), claim.owner(), claim.mode().is_shared()).await;
    }

    fn keep_polling_if_held(&self, claim: &Claim) -> bool {
        self.poller.keep_polling_if_held(|| self.stored(claim.name()), claim.owner())
    }

    /// A few names at a time: a read finds them, and a statement deletes them by their keys. It locks no held row, and no
    /// other statement waits for long.
    async fn purge(&self, idle: Duration, purge: Purge) -> Result<u64> {
        let (mut from, behind) = range(self.namespace.stored(""));
        let mut forgotten = 0;
        loop {
            let values = [Value::bytes(from.clone()), Value::bytes(behind.clone()), micros(idle)];
            let found = self.server.read(PoolClass::Attempt, &self.statements.idle, &values).await?;
            let names: Vec<&Value> = found.rows.iter().filter_map(|row| row.first()).collect();
            let Some(last) = names.last().and_then(|name| name.as_bytes()) else {
                return Ok(forgotten);
            };
            from = [last, [0].as_slice()].concat();
            forgotten += match purge {
                Purge::Delete => self.forget_idle(&names, idle).await.map_err(name_the_right)?,
                _ => names.len() as u64,
            };
        }
    }

    async fn init(&self) -> Result<()> {
        self.server.init().await
    }

    fn init_script(&self) -> String {
        self.server.init_script()
    }

    async fn check(&self) -> Result<Vec<Finding>> {
        self.server.check().await
    }

    /// The check fails without it.
    async fn is_there(&self) -> Result<bool> {
        Ok(true)
    }

    async fn forget(&self, names: &[LockName]) -> Result<()> {
        for names in names.chunks(MAX_CLAIMS) {
            let names: Vec<Value> = names.iter().map(|name| Value::bytes(self.stored(name))).collect();
            self.forget_idle(&names.iter().collect::<Vec<_>>(), Duration::ZERO).await?;
        }
        Ok(())
    }

    async fn close(&self) {
        self.server.close().await;
    }

    fn semantics(&self) -> Semantics {
        self.semantics.clone()
    }

    fn servers(&self) -> Option<&KnownServers> {
        Some(&self.server.target().servers)
    }

    fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

fn unknown(error: Error) -> Error {
    error.with_kind(ErrorKind::Indeterminate)
}

/// True if the statement answered a row, as where it may send a message, or changed one.
fn has_ended(answer: &Answer) -> bool {
    !answer.rows.is_empty() || answer.changed == 1
}

/// The answer does not say whether the row was granted: `MariaDB` leaves `LAST_INSERT_ID()` out if a trigger ran.
fn is_untold(answer: &Answer) -> bool {
    answer.rows.is_empty() && answer.last_id == 0 && answer.changed > 0
}

fn micros(time: Duration) -> Value {
    Value::int(time.as_micros())
}

/// A row as `look.sql` and `list.sql` answer it; `None` if another program wrote it.
fn read_row(values: &[Value]) -> Option<LeaseRow> {
    let [name, owner, token, ends_in, acquired_at, _version, holder, ..] = values else {
        return None;
    };
    let owner = match owner.as_bytes() {
        Some(bytes) => Some(OwnerId::from_bytes(bytes)?),
        None => None,
    };
    let ends_in = u64::try_from(ends_in.as_int()?).map(Duration::from_micros).unwrap_or_default();
    Some(LeaseRow {
        stored_name: String::from_utf8(name.as_bytes()?.to_vec()).ok()?,
        state: match owner {
            _ if ends_in.is_zero() => RowState::Free,
            Some(_) => RowState::Held { ends_in },
            None => RowState::Lingering { ends_in },
        },
        owner: owner.unwrap_or(OwnerId::from_u128(0)),
        token: read_token(token)?,
        holder: holder.as_text()?.to_owned(),
        acquired_at: unix_time(acquired_at.as_int()?),
    })
}

fn read_token(number: &Value) -> Option<FencingToken> {
    u64::try_from(number.as_int()?).ok().map(FencingToken::new)
}

fn unix_time(micros: i64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(u64::try_from(micros).ok()?))
}
