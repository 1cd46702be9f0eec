use crate::args::{WaitArgs, stored_name};
use leasehold::admin::LockStatus;
use leasehold::{Error, ErrorKind, LockName, Wait};
use leasehold_console::exit::{Code, ended_by};
use leasehold_console::signals::Signals;
use leasehold_console::{Console, Failure, Invocation, OpenStore, brief, sentence, short_sentence};
use std::time::{Duration, Instant};

/// The time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Waits until a lock is free. Takes nothing, and so has no place in a queue.
pub(super) async fn wait(args: &WaitArgs, invocation: &Invocation) -> Result<Code, Failure> {
    let name = stored_name(&args.name)?;
    let store = invocation.open().await?;
    let mut signals =
        Signals::listen().map_err(|error| Failure::internal("cannot listen to signals", error))?;
    let limit = args.wait.map_or(Wait::Forever, Wait::from);
    let start = Instant::now();
    let mut looks =
        Looks { name: &name, store: &store, console: invocation.console, failing: false, shown: false };
    let mut holds = store.admin()?.inspect(&name).await?;
    while !holds.is_empty() {
        let left = match limit {
            Wait::No => Duration::ZERO,
            Wait::UpTo(time) => time.saturating_sub(start.elapsed()),
            _ => Duration::MAX,
        };
        if left.is_zero() {
            let message = format!("{name:?} was held for all of {}", brief(start.elapsed()));
            let failure = Failure::new(Error::new(ErrorKind::TimedOut, message));
            return Err(failure.with_holder(holds.into_iter().next()));
        }
        if let Err(signal) = signals.unless_ended(tokio::time::sleep(INTERVAL.min(left))).await {
            looks.console.end_progress();
            return Ok(ended_by(signal));
        }
        if let Some(seen) = looks.again().await? {
            holds = seen;
        }
    }
    invocation.console.end_progress();
    Ok(Code::SUCCESS)
}

/// The looks after the first, which has shown that the store answers.
struct Looks<'a> {
    name: &'a LockName,
    store: &'a OpenStore,
    console: Console,
    failing: bool,
    shown: bool,
}

impl Looks<'_> {
    /// What the store tells; `None` during a failure that may pass, as for a waiter of `run`.
    async fn again(&mut self) -> Result<Option<Vec<LockStatus>>, Error> {
        let error = match self.store.admin()?.inspect(self.name).await {
            Ok(holds) => {
                self.failing = false;
                self.show(&holds);
                return Ok(Some(holds));
            }
            Err(error) => error,
        };
        if !error.is_outage() && !matches!(error.kind(), ErrorKind::Denied | ErrorKind::Misconfigured) {
            return Err(error);
        }
        if !std::mem::replace(&mut self.failing, true) {
            self.console.warn(format_args!("still waiting for {:?}: {error}", self.name), error.help());
        }
        Ok(None)
    }

    /// At a terminal in one line that is rewritten, elsewhere once.
    fn show(&mut self, holds: &[LockStatus]) {
        let Some(hold) = holds.first() else { return };
        if self.console.is_at_terminal() {
            self.console.progress(format_args!("waiting: {}", short_sentence(hold)));
        } else if !std::mem::replace(&mut self.shown, true) {
            self.console.note(format_args!("waiting: {}", sentence(hold)));
        }
    }
}
