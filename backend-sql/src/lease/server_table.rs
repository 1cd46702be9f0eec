//! The table of leases on a server. The databases share their statements, except those in [`Leases`](crate::server::Leases).

mod readers;
mod renewal;
mod statements;
#[cfg(all(test, feature = "postgres"))]
mod tests;

use super::poller::Poller;
use super::{Granting, LeaseRow, LeaseTable, ReadFor, ReaderTable as _, RowState};
use crate::names::range;
use crate::server::{
    Answer, ListStatement, MAX_CLAIMS, Mode, PoolClass, Server, StatementKind, Value, name_the_right,
};
use async_trait::async_trait;
use leasehold_core::{
    Claim, Error, ErrorKind, FencingToken, Finding, KnownServers, LockName, Namespace, OwnerId, Purge,
    Result, Semantics,
};
use statements::{Ending, Statements};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

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
        let statements = Statements::new(server.dialect().texts(), &server.target().table);
        let (poller, may_notify) = (Poller::new(&server), AtomicBool::new(true));
        Self { server, namespace: namespace.clone(), statements, semantics, poller, may_notify }
    }

    fn stored(&self, name: &LockName) -> Vec<u8> {
        self.namespace.stored(name.as_str()).into_bytes()
    }

    /// The token of a grant; `None` if another owner holds the row. It is in the answer to `acquire.sql`: in a row of PostgreSQL, or in the
    /// `LAST_INSERT_ID()` of MySQL and MariaDB.
    async fn granted_token(&self, claim: &Claim, answer: &Answer) -> Result<Option<FencingToken>> {
        match answer.first() {
            Some(token) => read_token(token).map(Some).ok_or_else(|| self.server.unreadable()),
            // `MariaDB` leaves `LAST_INSERT_ID()` out if a trigger ran: the row shows whether it was granted.
            None if answer.last_id == 0 && answer.changed > 0 => {
                let unknown = |error: Error| error.with_kind(ErrorKind::Indeterminate);
                let row = self.read_shared(claim.name(), ReadFor::Loss).await.map_err(unknown)?;
                Ok(row.filter(|row| row.owner == Some(claim.owner())).map(|row| row.token))
            }
            None if answer.last_id > FencingToken::MAX_COUNTED || answer.last_id == 0 => Ok(None),
            None => Ok(Some(FencingToken::new(answer.last_id))),
        }
    }

    /// The answer to `acquire.sql`. One that was sent twice and refused the second time has granted nothing, unless the row is the claim's.
    /// A first one that still runs, on a server that has reset its connection, may grant one lease that no claim uses.
    async fn acquire(&self, claim: &Claim, values: &[Value]) -> Result<Answer> {
        let (answer, was_sent_before) = self.server.grant(&self.statements.acquire, values).await;
        let refused = match answer {
            Err(refused) if was_sent_before && refused.kind() != ErrorKind::Indeterminate => refused,
            answer => return answer,
        };
        let look = match refused.kind() {
            // A server that takes no writes locks no row, and shows it all the same.
            ErrorKind::Unavailable => &self.statements.look,
            _ => &self.statements.look_where_writes_go,
        };
        let unknown = |error: Error| error.with_kind(ErrorKind::Indeterminate);
        let rows = self.rows_of(look, &[claim.name()]).await.map_err(unknown)?;
        let is_granted = rows.iter().any(|row| row.owner == claim.owner());
        Err(if is_granted { unknown(refused) } else { refused })
    }

    /// Ends something. A message to waiters is a hint: without the right to send one, the statement does without.
    async fn end(
        &self,
        class: PoolClass,
        kind: StatementKind,
        statement: &Ending,
        values: &[Value],
    ) -> Result<Answer> {
        let notifying = statement.notifying.as_ref().filter(|_| self.may_notify.load(Ordering::Relaxed));
        let Some(notifying) = notifying else {
            return self.server.execute(class, kind, &statement.silent, values).await;
        };
        let denied = match self.server.execute(class, kind, notifying, values).await {
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

    /// The rows of these names, for a holder that waits for the answer. A foreign row is left out, so that it does not hide the others.
    async fn rows_of(&self, look: &ListStatement, names: &[&LockName]) -> Result<Vec<LeaseRow>> {
        let mut rows = Vec::with_capacity(names.len());
        for some in names.chunks(MAX_CLAIMS) {
            let (statement, size) = look.for_claims(some.len());
            let values: Vec<Value> =
                some.iter().cycle().take(size).map(|name| Value::bytes(self.stored(name))).collect();
            let answer = self.server.read(PoolClass::Renewal, statement, &values).await?;
            rows.extend(answer.rows.iter().filter_map(|row| read_row(row)));
        }
        Ok(rows)
    }

    /// Deletes the rows of these names that are still idle; their number.
    async fn forget_idle(&self, names: &[Value], idle: Duration) -> Result<u64> {
        let (statement, size) = self.statements.purge.for_claims(names.len());
        let names = names.iter().cycle().take(size).cloned();
        let values: Vec<Value> = std::iter::once(micros(idle)).chain(names).collect();
        Ok(self.server.write(PoolClass::Attempt, statement, &values).await?.changed)
    }
}

#[async_trait]
impl LeaseTable for ServerTable {
    fn is_optimistic(&self) -> bool {
        self.server.target().mode == Mode::Optimistic
    }

    async fn grant(&self, claim: &Claim) -> Result<Granting> {
        let values = [
            Value::bytes(self.stored(claim.name())),
            Value::bytes(claim.owner().to_bytes()),
            micros(claim.ttl()),
            Value::text(claim.holder()),
            micros(self.server.target().timeout),
        ];
        let answer = self.acquire(claim, &values).await?;
        match self.granted_token(claim, &answer).await? {
            Some(token) => {
                self.server.target().headroom.holds_for(claim.ttl());
                Ok(Granting::Granted(token))
            }
            None if claim.waits() => Ok(Granting::Refused(self.look(claim.name()).await?)),
            None => Ok(Granting::Held),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        // Nearly always one ttl, and one statement. In the order of names: two programs that lock the same rows do so in
        // the same order.
        let mut by_ttl: BTreeMap<Duration, Vec<&Claim>> = BTreeMap::new();
        for claim in claims {
            by_ttl.entry(claim.ttl()).or_default().push(claim);
        }
        let mut renewed = HashMap::new();
        for (ttl, mut alike) in by_ttl {
            alike.sort_by(|one, other| one.name().cmp(other.name()));
            for some in alike.chunks(MAX_CLAIMS) {
                let answers = self.renew_alike(ttl, some).await;
                renewed.extend(some.iter().map(|claim| claim.owner()).zip(answers));
            }
        }
        claims.iter().map(|claim| renewed[&claim.owner()].clone()).collect()
    }

    async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool> {
        let name = self.stored(claim.name());
        let values = [micros(linger), Value::bytes(name.clone()), Value::bytes(claim.owner().to_bytes())];
        let released =
            self.end(PoolClass::Renewal, StatementKind::End, &self.statements.release, &values).await;
        self.poller.released(&name);
        if released?.changed == 1 { Ok(true) } else { self.nothing_held().await }
    }

    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        let name = self.stored(name);
        let values = [Value::bytes(name.clone()), Value::int(token.get())];
        let ended =
            self.end(PoolClass::Attempt, StatementKind::End, &self.statements.end_grant, &values).await;
        self.poller.released(&name);
        if ended?.changed == 1 { Ok(true) } else { self.nothing_held().await }
    }

    async fn look(&self, name: &LockName) -> Result<Option<LeaseRow>> {
        let (look, values) = (self.statements.look.for_claims(1).0, [Value::bytes(self.stored(name))]);
        let answer = self.server.read(PoolClass::Attempt, look, &values).await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        read_row(row).map(Some).ok_or_else(|| self.foreign(name))
    }

    async fn look_at_each(&self, names: &[&LockName]) -> Result<Vec<LeaseRow>> {
        self.rows_of(&self.statements.look, names).await
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
            let names: Vec<Value> = found.rows.into_iter().flatten().collect();
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
            self.forget_idle(&names, Duration::ZERO).await?;
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

fn micros(time: Duration) -> Value {
    Value::int(time.as_micros())
}

/// A row as `look.sql` and `list.sql` answer it; `None` if another program wrote it.
fn read_row(values: &[Value]) -> Option<LeaseRow> {
    let [name, owner, token, ends_in, acquired_at, holder] = values else { return None };
    let owner = read_owner(owner)?;
    let ends_in = micros_of(ends_in)?;
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
        acquired_at: SystemTime::UNIX_EPOCH.checked_add(micros_of(acquired_at)?),
    })
}

/// `None` within for a row without an owner.
fn read_owner(owner: &Value) -> Option<Option<OwnerId>> {
    match owner.as_bytes() {
        Some(bytes) => OwnerId::from_bytes(bytes).map(Some),
        None => Some(None),
    }
}

fn read_token(number: &Value) -> Option<FencingToken> {
    u64::try_from(number.as_int()?).ok().map(FencingToken::new)
}

/// A time in microseconds; zero for a negative one.
pub(super) fn micros_of(value: &Value) -> Option<Duration> {
    Some(Duration::from_micros(u64::try_from(value.as_int()?).unwrap_or_default()))
}
