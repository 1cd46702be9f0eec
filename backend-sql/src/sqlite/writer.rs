//! The one who writes: a task with a connection, that does in one statement what was asked of it meanwhile.

use super::Shared;
use super::batch::MOST;
use super::link::Link;
use super::reader::Reader;
use super::service::{Asked, Reply, Service};
use super::time_limit::TimeLimit;
use super::writes;
use crate::lease::{NextRow, SharedRow};
use leasehold_core::{Claim, ErrorKind, FencingToken, LockName, Purge, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// All that this process writes goes through one queue, in which tasks wait in their order; between processes SQLite
/// knows no order. Those who ask while a statement runs share the next one: one transaction and one wait for the disk,
/// however many they are. Who asks alone waits for nobody.
#[derive(Debug)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    reader: Arc<Reader>,
    service: Service<Job>,
}

#[derive(Debug)]
enum Job {
    Grant(Asked<Claim, Option<FencingToken>>),
    Renew(Asked<Vec<Claim>, Renewed>),
    Release(Asked<(Claim, Duration), bool>),
    Other(Other),
}

/// What is done for one caller alone.
#[derive(Debug)]
enum Other {
    EndGrant(Asked<(LockName, FencingToken), bool>),
    MakeRow(Asked<LockName, ()>),
    Replace(Asked<(LockName, SharedRow, NextRow), bool>),
    Purge(Asked<(StoredNames, Duration, Purge), u64>),
    Open(Asked<(), ()>),
    Close(Reply<()>),
}

/// The names from the first of these on, as they are stored, and before the second.
pub(super) type StoredNames = (Vec<u8>, Vec<u8>);

/// For each of several claims, in their order, whether its lease was extended.
pub(super) type Renewed = Vec<Result<bool>>;

impl Writer {
    pub(super) fn new(shared: &Arc<Shared>, reader: &Arc<Reader>) -> Self {
        Self { shared: Arc::clone(shared), reader: Arc::clone(reader), service: Service::new() }
    }

    /// The token, if the claim was granted.
    pub(super) async fn grant(&self, claim: &Claim) -> Result<Option<FencingToken>> {
        self.ask(claim.clone(), Job::Grant).await
    }

    pub(super) async fn renew(&self, claims: &[Claim]) -> Result<Renewed> {
        self.ask(claims.to_vec(), Job::Renew).await
    }

    /// True if there was a lease to end.
    pub(super) async fn release(&self, claim: &Claim, linger: Duration) -> Result<bool> {
        self.ask((claim.clone(), linger), Job::Release).await
    }

    /// True if there was something to end.
    pub(super) async fn end_grant(&self, name: &LockName, token: FencingToken) -> Result<bool> {
        self.ask((name.clone(), token), |asked| Job::Other(Other::EndGrant(asked))).await
    }

    /// Makes a free row if there is none.
    pub(super) async fn make_row(&self, name: &LockName) -> Result<()> {
        self.ask(name.clone(), |asked| Job::Other(Other::MakeRow(asked))).await
    }

    /// True if the row was as it had been read, and is changed.
    pub(super) async fn replace(&self, name: &LockName, was: &SharedRow, next: &NextRow) -> Result<bool> {
        let what = (name.clone(), was.clone(), next.clone());
        self.ask(what, |asked| Job::Other(Other::Replace(asked))).await
    }

    /// Forgets, or counts, those of these names that nobody has held for so long.
    pub(super) async fn purge(&self, names: StoredNames, idle: Duration, purge: Purge) -> Result<u64> {
        self.ask((names, idle, purge), |asked| Job::Other(Other::Purge(asked))).await
    }

    /// Makes the file and the table if they are missing.
    pub(super) async fn open(&self) -> Result<()> {
        self.ask((), |asked| Job::Other(Other::Open(asked))).await
    }

    pub(super) async fn close(&self) {
        self.service.tell(|reply| Job::Other(Other::Close(reply))).await;
    }

    async fn ask<What, Answer>(
        &self,
        what: What,
        job: impl FnOnce(Asked<What, Answer>) -> Job,
    ) -> Result<Answer> {
        let task = |queue| Task::new(&self.shared, &self.reader).serve(queue);
        self.service.ask(what, job, task).await
    }
}

struct Task {
    shared: Arc<Shared>,
    link: Link,
    limit: TimeLimit,
}

/// What is done together.
#[derive(Default)]
struct Turn {
    renewals: Vec<Asked<Vec<Claim>, Renewed>>,
    releases: Vec<Asked<(Claim, Duration), bool>>,
    grants: Vec<Asked<Claim, Option<FencingToken>>>,
    others: Vec<Other>,
}

impl Task {
    fn new(shared: &Arc<Shared>, reader: &Arc<Reader>) -> Self {
        Self {
            shared: Arc::clone(shared),
            link: Link::of_writer(shared, reader),
            limit: TimeLimit::new(shared.answers_within(), ErrorKind::Indeterminate),
        }
    }

    async fn serve(mut self, mut queue: UnboundedReceiver<Job>) {
        let mut jobs = Vec::new();
        while queue.recv_many(&mut jobs, MOST).await > 0 {
            let turn = Turn::of(jobs.drain(..));
            // Renewals first, because leases end; releases before grants, which can have what was freed.
            self.renew(turn.renewals).await;
            self.release(turn.releases).await;
            self.grant(turn.grants).await;
            for other in turn.others {
                self.do_alone(other).await;
            }
        }
    }

    /// What follows a statement that failed is not sent, and shares its error.
    async fn renew(&mut self, asked: Vec<Asked<Vec<Claim>, Renewed>>) {
        let (claims, replies) = separate(asked);
        let all = claims.concat();
        let mut answers: Renewed = Vec::with_capacity(all.len());
        for some in all.chunks(MOST) {
            let call = writes::renew(&self.shared, &mut self.link, some);
            match self.limit.on(call).await {
                Ok(renewed) => answers.extend(renewed.into_iter().map(Ok)),
                Err(error) => {
                    answers.resize_with(all.len(), || Err(error.clone()));
                    break;
                }
            }
        }
        let shares = claims.iter().map(|claims| answers.drain(..claims.len()).collect());
        reply_all(replies, Ok(shares.collect()));
    }

    async fn release(&mut self, asked: Vec<Asked<(Claim, Duration), bool>>) {
        let (claims, replies) = separate(asked);
        let call = writes::release(&self.shared, &mut self.link, &claims);
        reply_all(replies, self.limit.on(call).await);
    }

    async fn grant(&mut self, asked: Vec<Asked<Claim, Option<FencingToken>>>) {
        let (claims, replies) = separate(asked);
        let call = writes::grant(&self.shared, &mut self.link, &claims);
        reply_all(replies, self.limit.on(call).await);
    }

    async fn do_alone(&mut self, other: Other) {
        match other {
            Other::EndGrant(asked) => {
                let (name, token) = &asked.what;
                let call = writes::end_grant(&self.shared, &mut self.link, name, *token);
                let ended = self.limit.on(call).await;
                asked.answer(ended);
            }
            Other::MakeRow(asked) => {
                let call = writes::make_row(&self.shared, &mut self.link, &asked.what);
                let made = self.limit.on(call).await;
                asked.answer(made);
            }
            // The change of a reader that was given up must not be made later.
            Other::Replace(asked) if asked.is_given_up() => {}
            Other::Replace(asked) => {
                let (name, was, next) = &asked.what;
                let call = writes::replace(&self.shared, &mut self.link, name, was, next);
                let replaced = self.limit.on(call).await;
                asked.answer(replaced);
            }
            Other::Purge(asked) => {
                let (names, idle, purge) = &asked.what;
                let call = writes::purge(&self.shared, &mut self.link, names, *idle, *purge);
                let purged = self.limit.on(call).await;
                asked.answer(purged);
            }
            Other::Open(asked) => asked.answer(self.limit.on(self.link.reopen()).await),
            Other::Close(reply) => {
                self.link.close();
                let _ = reply.send(Ok(()));
            }
        }
    }
}

impl Turn {
    /// An acquisition that was given up before its turn must not be granted at it.
    fn of(jobs: impl Iterator<Item = Job>) -> Self {
        let mut turn = Self::default();
        for job in jobs {
            match job {
                Job::Grant(asked) if asked.is_given_up() => {}
                Job::Grant(asked) => turn.grants.push(asked),
                Job::Renew(asked) => turn.renewals.push(asked),
                Job::Release(asked) => turn.releases.push(asked),
                Job::Other(other) => turn.others.push(other),
            }
        }
        turn
    }
}

fn separate<What, Answer>(asked: Vec<Asked<What, Answer>>) -> (Vec<What>, Vec<Reply<Answer>>) {
    asked.into_iter().map(|asked| (asked.what, asked.reply)).unzip()
}

/// One failed statement is the error of all who were in it.
fn reply_all<Answer>(replies: Vec<Reply<Answer>>, answers: Result<Vec<Answer>>) {
    match answers {
        Ok(answers) => {
            for (reply, answer) in replies.into_iter().zip(answers) {
                let _ = reply.send(Ok(answer));
            }
        }
        Err(error) => {
            for reply in replies {
                let _ = reply.send(Err(error.clone()));
            }
        }
    }
}
