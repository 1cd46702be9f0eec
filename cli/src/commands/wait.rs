use crate::args::{WaitArgs, stored_name};
use leasehold::{Error, ErrorKind, Wait};
use leasehold_console::exit::{Code, ended_by};
use leasehold_console::signals::Signals;
use leasehold_console::{Failure, Invocation, brief};
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
    loop {
        let holds = store.admin()?.inspect(&name).await?;
        if holds.is_empty() {
            return Ok(Code::SUCCESS);
        }
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
            return Ok(ended_by(signal));
        }
    }
}
