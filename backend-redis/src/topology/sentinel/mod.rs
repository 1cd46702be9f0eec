//! Which server is the primary: what the Sentinels say, asked again for every connection, and once a second for as long as
//! there is one.
//!
//! All are asked at once, and the newest word of a majority counts: a Sentinel that was cut off from the others goes on
//! naming the old primary, and its word is the older one. If a majority does not answer in time, or knows less than was
//! heard before, those who do must be enough; the server that they name is asked for its role before it is believed.

mod answer;

pub(crate) use answer::Epoch;

use crate::connection::SentinelClient;
use crate::target::{Address, Group, Target};
use answer::{Answer, Watched};
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_core::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::{Instant, timeout_at};

/// The Sentinels of one primary.
#[derive(Debug)]
pub(crate) struct Sentinels {
    group: Group,
    /// Where the primary was by their last word that counted.
    last: Mutex<Option<PrimaryReport>>,
}

/// Where the primary is, and how new that is.
#[derive(Clone, Debug)]
pub(crate) struct PrimaryReport {
    pub(crate) address: Address,
    pub(crate) epoch: Epoch,
}

impl Sentinels {
    pub(crate) fn new(group: Group) -> Self {
        Self { group, last: Mutex::default() }
    }

    /// How to talk to the primary, but not yet where.
    pub(crate) fn terms(&self) -> &Target {
        &self.group.primary
    }

    /// Asks who the primary is. Takes a third of the time to connect at most, so that there is some left for that.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](ErrorKind::Unavailable) if none answers, [`Misconfigured`](ErrorKind::Misconfigured) if none
    /// knows the name or they are no Sentinels, [`Denied`](ErrorKind::Denied) if they do not talk to us.
    pub(crate) async fn primary(&self) -> Result<(Target, Epoch)> {
        let (majority, heard) =
            (self.group.sentinels.len() / 2 + 1, self.last().as_ref().map(|word| word.epoch));
        let is_enough = |newest: Epoch, answers| answers >= majority && Some(newest) >= heard;
        let Watched { host, port, epoch } = self.newest_word(&mut self.lines(), is_enough).await?;
        let target = self.group.primary.at(&host, port)?;
        *self.last() = Some(PrimaryReport { address: target.address.clone(), epoch });
        Ok((target, epoch))
    }

    /// What is said of the primary since this epoch, if anything. One Sentinel that has heard more is enough.
    pub(crate) async fn word_since(
        &self,
        known: Epoch,
        lines: &mut [SentinelClient<'_>],
    ) -> Option<PrimaryReport> {
        let is_enough = |newest: Epoch, _| newest > known && newest.is_settled;
        let Watched { host, port, epoch } = self.newest_word(lines, is_enough).await.ok()?;
        let word = PrimaryReport { address: Address::Tcp { host, port }, epoch };
        (epoch > known).then(|| self.last().insert(word).clone())
    }

    /// A line to each of them, on which nothing was asked yet.
    pub(crate) fn lines(&self) -> Vec<SentinelClient<'_>> {
        self.group.sentinels.iter().map(SentinelClient::to).collect()
    }

    async fn newest_word(
        &self,
        lines: &mut [SentinelClient<'_>],
        is_enough: impl Fn(Epoch, usize) -> bool,
    ) -> Result<Watched> {
        let Group { name, primary, .. } = &self.group;
        let deadline = Instant::now() + primary.timeouts.connect / 3;
        let mut asked: FuturesUnordered<_> = lines.iter_mut().map(|line| ask(line, name, deadline)).collect();
        let (mut newest, mut answers, mut failure) = (None::<Watched>, 0, None);
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(Answer::Watched(watched)) => {
                    newest = newest.into_iter().chain([watched]).max_by_key(|one| one.epoch);
                    answers += 1;
                }
                Ok(Answer::Unknown) => failure = worse(failure, self.unknown_name()),
                Err(error) => failure = worse(failure, error),
            }
            if newest.as_ref().is_some_and(|newest| is_enough(newest.epoch, answers)) {
                break;
            }
        }
        newest.ok_or_else(|| failure.unwrap_or_else(|| self.unknown_name()))
    }

    fn last(&self) -> MutexGuard<'_, Option<PrimaryReport>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown_name(&self) -> Error {
        let message = format!("the Sentinels watch nothing of the name {:?}", self.group.name);
        Error::new(ErrorKind::Misconfigured, message)
            .with_help("look at the name in the URL, and at SENTINEL MASTERS")
    }
}

async fn ask(line: &mut SentinelClient<'_>, name: &str, deadline: Instant) -> Result<Answer> {
    let mut question = redis::cmd("SENTINEL");
    question.arg("MASTER").arg(name);
    let reply = timeout_at(deadline, line.ask(&question)).await;
    reply
        .unwrap_or_else(|_| Err(silent()))
        .and_then(|reply| Answer::read(&reply))
        .map_err(|error| error.context(format_args!("Sentinel at {}", line.address())))
}

/// Of two failures the one that says more than that nobody was there.
fn worse(known: Option<Error>, new: Error) -> Option<Error> {
    known
        .filter(|known| known.kind() != ErrorKind::Unavailable || new.kind() == ErrorKind::Unavailable)
        .or(Some(new))
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "it did not answer in time")
        .with_help("look at the Sentinels and at the network to them, or raise connect_timeout in the URL")
}

/// Where the primary is, for people.
impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.last() {
            Some(PrimaryReport { address, .. }) => write!(f, "{address}, primary of {:?}", self.group.name),
            None => write!(f, "the primary of {:?}", self.group.name),
        }
    }
}
