//! The table of leases on a server. The databases share their statements, except those in [`Texts`](crate::server::Texts).

mod grant;
mod renewal;
mod statements;
#[cfg(all(test, feature = "postgres"))]
mod tests;

use super::poller::Poller;
use super::{Granting, LeaseRow, LeaseTable, NextRow, READERS, ReadFor, foreign_row, lease_semantics, row};
use crate::names::range;
use crate::server::{Answer, MAX_CLAIMS, Mode, PoolClass, Server, StatementKind, Value, name_the_right};
use async_trait::async_trait;
use grant::HELD_BY_ONE;
use leasehold_core::{
    Claim, Error, ErrorKind, FencingToken, Finding, KnownServers, LockName, Namespace, OwnerId, Purge,
    Renewal, Result, Semantics,
};
use statements::{Notifying, Statements};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct ServerTable {
    server: Server,
    namespace: Namespace,
    statements: Statements,
    poller: Poller,
    /// False once these credentials were refused a statement that sends a message, and not the same without it.
    may_notify: AtomicBool,
}

impl ServerTable {
    pub(crate) fn new(server: Server, namespace: &Namespace) -> Self {
        let statements = Statements::new(server.dialect().texts(), &server.target().table);
        let (poller, may_notify) = (Poller::new(&server), AtomicBool::new(true));
        Self { server, namespace: namespace.clone(), statements, poller, may_notify }
    }

    fn stored(&self, name: &LockName) -> Vec<u8> {
        self.namespace.stored(name.as_str()).into_bytes()
    }

    /// Runs a statement that may send a message to waiters. It is a hint: without the right to send one, the statement does without.
    async fn run_notifying(
        &self,
        class: PoolClass,
        kind: StatementKind,
        statement: &Notifying,
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

    /// Ends a lease, known by its owner or its token; false if it had ended.
    async fn end_lease(
        &self,
        class: PoolClass,
        statement: &Notifying,
        name: &LockName,
        linger: Duration,
        known_by: Value,
    ) -> Result<bool> {
        let name = self.stored(name);
        let values = [micros(linger), Value::bytes(name.clone()), known_by];
        let ended = self.run_notifying(class, StatementKind::End, statement, &values).await;
        self.poller.released(&name);
        let is_ended = ended?.changed == 1;
        if !is_ended {
            self.server.must_take_writes().await?;
        }
        Ok(is_ended)
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

    /// A writer that waits for readers leaves a mark in the row: it is read after the refusal of a waiter, unless the answer says that one
    /// owner holds it.
    async fn grant(&self, claim: &Claim) -> Result<Granting> {
        let answer = self.acquire(claim).await?;
        if let Some(token) = self.granted_token(claim, &answer).await? {
            self.server.target().headroom.holds_for(claim.ttl());
            return Ok(Granting::Granted(token));
        }
        match claim.waits() && answer.last_id != HELD_BY_ONE {
            true => Ok(Granting::Refused(self.look(claim.name(), ReadFor::Attempt).await?)),
            false => Ok(Granting::Held),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Vec<Result<Renewal>> {
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
        let owner = Value::bytes(claim.owner().to_bytes());
        self.end_lease(PoolClass::Renewal, &self.statements.release, claim.name(), linger, owner).await
    }

    async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        let (end_grant, token) = (&self.statements.end_grant, Value::int(token.get()));
        self.end_lease(PoolClass::Attempt, end_grant, name, Duration::ZERO, token).await
    }

    async fn look(&self, name: &LockName, reason: ReadFor) -> Result<Option<LeaseRow>> {
        let look = match reason {
            ReadFor::Attempt | ReadFor::Holder => &self.statements.look,
            ReadFor::Loss => &self.statements.look_where_writes_go,
        };
        let (class, values) = (class(reason != ReadFor::Attempt), [Value::bytes(self.stored(name))]);
        let answer = self.server.read(class, look.for_claims(1).0, &values).await?;
        if answer.rows.is_empty() && reason == ReadFor::Loss {
            self.server.must_take_writes().await?;
        }
        let Some(row) = answer.rows.first() else { return Ok(None) };
        read_row(row).map(Some).ok_or_else(|| self.foreign(name))
    }

    async fn check_writes(&self) -> Result<()> {
        self.server.check_writes().await
    }

    async fn make_row(&self, name: &LockName) -> Result<()> {
        let values = [Value::bytes(self.stored(name))];
        self.server
            .execute(PoolClass::Attempt, StatementKind::MakeRow, &self.statements.make_row, &values)
            .await
            .map(drop)
    }

    async fn replace(
        &self,
        name: &LockName,
        was: &LeaseRow,
        next: &NextRow,
        is_holder: bool,
    ) -> Result<bool> {
        let taker = next.taker.as_ref();
        let values = [
            Value::bytes(self.stored(name)),
            Value::int(was.version.first().copied().unwrap_or_default()),
            Value::bytes(taker.map_or(READERS, Claim::owner).to_bytes()),
            Value::int(next.token.get()),
            Value::int(next.ends_at),
            Value::text(&next.sharers),
            Value::int(next.before),
            micros(taker.map_or(Duration::ZERO, Claim::ttl)),
            Value::text(taker.map_or("", |claim| claim.holder())),
        ];
        let (class, kind, replace) = (class(is_holder), StatementKind::Write, &self.statements.replace);
        let is_replaced = self.run_notifying(class, kind, replace, &values).await?.changed == 1;
        if is_replaced {
            self.server.target().headroom.holds_for(row::micros(next.ends_at.saturating_sub(was.now)));
        }
        Ok(is_replaced)
    }

    fn foreign(&self, name: &LockName) -> Error {
        foreign_row(name, &self.server.target().table)
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

    /// A few names at a time, by their keys: that locks no held row, and no other statement waits for long.
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

    /// The check fails without the table.
    async fn check(&self) -> Result<(Vec<Finding>, bool)> {
        Ok((self.server.check().await?, true))
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
        let (target, texts) = (self.server.target(), self.server.dialect().texts());
        lease_semantics(target.name, target.mode.as_str(), texts.notify.is_some())
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

/// A connection is kept for holders.
fn class(is_holder: bool) -> PoolClass {
    if is_holder { PoolClass::Renewal } else { PoolClass::Attempt }
}

/// A row as `look.sql` and `list.sql` answer it; `None` if another program wrote it.
fn read_row(values: &[Value]) -> Option<LeaseRow> {
    let [name, owner, token, ends_at, acquired_at, holder, version, sharers, now] = values else {
        return None;
    };
    let now = now.as_int()?;
    Some(LeaseRow {
        stored_name: String::from_utf8(name.as_bytes()?.to_vec()).ok()?,
        owner: match owner.as_bytes() {
            Some(bytes) => Some(OwnerId::from_bytes(bytes)?),
            None => None,
        },
        token: read_token(token)?,
        ends_at: ends_at.as_int()?,
        acquired_at: acquired_at.as_int()?,
        holder: holder.as_text()?.to_owned(),
        sharers: sharers.as_text().unwrap_or_default().to_owned(),
        now,
        unix_now: u64::try_from(now).ok()?,
        version: vec![version.as_int()?],
    })
}

fn read_token(number: &Value) -> Option<FencingToken> {
    u64::try_from(number.as_int()?).ok().map(FencingToken::new)
}
