use crate::{Console, brief};
use leasehold::client::{Event, Observer, TracingObserver};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The least time between two warnings of one kind: an outage of the store is news once, not at every attempt.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Tells the operator what happens in the background; the whole story goes to the log.
#[derive(Debug)]
pub(crate) struct ConsoleObserver {
    console: Console,
    log: TracingObserver,
    renewal: Mutex<Option<Instant>>,
    wait: Mutex<Option<Instant>>,
}

impl ConsoleObserver {
    pub(crate) fn new(console: Console) -> Self {
        Self { console, log: TracingObserver::default(), renewal: Mutex::default(), wait: Mutex::default() }
    }
}

impl Observer for ConsoleObserver {
    fn event(&self, event: &Event<'_>) {
        self.log.event(event);
        match event {
            // The gate of a semaphore is a waiter's, who hears of the failure by its wait.
            Event::RenewalFailed { name, .. } if name.slot().is_none() && name.semaphore().is_some() => {}
            Event::RenewalFailed { name, error, remaining, .. } if is_news(&self.renewal) => {
                let (name, left) = (name.semaphore().unwrap_or(name.as_str()), brief(*remaining));
                self.console.warn(
                    format_args!("the lease of {name:?} was not renewed, {left} are left: {error}"),
                    None,
                );
            }
            Event::WaitFailed { name, error, failing_for } if is_news(&self.wait) => {
                let so_far = match failing_for.as_secs() {
                    0 => String::new(),
                    _ => format!(", which lasts for {} now", brief(*failing_for)),
                };
                let name = name.semaphore().unwrap_or(name.as_str());
                self.console.warn(format_args!("still waiting for {name:?}: {error}{so_far}"), error.help());
            }
            Event::ServerChanged { address, before, now } => self.console.warn(
                format_args!("{address} leads to another server than before, {now} instead of {before}"),
                Some("locks that were granted before may be granted again; is there a balancer in between?"),
            ),
            // A loss and a release that was not confirmed are told by whoever holds the lock.
            _ => {}
        }
    }
}

fn is_news(last: &Mutex<Option<Instant>>) -> bool {
    let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let news = last.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL);
    if news {
        *last = Some(Instant::now());
    }
    news
}
