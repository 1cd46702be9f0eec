//! Metrics of a client, through the `metrics` crate: for Prometheus and any other recorder.
//!
//! | metric | kind | labels | is |
//! |---|---|---|---|
//! | `leasehold_acquire_seconds` | histogram | `outcome` | the time from a call to its end; `outcome` is `granted`, `cancelled`, or the kind of the error, such as `timed_out` |
//! | `leasehold_hold_seconds` | histogram | | the time from a grant to its release; not of a hold that was lost |
//! | `leasehold_renewal_margin_seconds` | histogram | | what was left of a lease when its renewal was confirmed: the earliest warning there is |
//! | `leasehold_held`, `leasehold_waiting` | gauge | | holds, and acquisitions that wait; the first waiter of a semaphore waits for each slot |
//! | `leasehold_lost_total` | counter | `cause` | holds that were lost |
//! | `leasehold_renewal_failures_total` | counter | | renewals that failed |
//! | `leasehold_release_unconfirmed_total` | counter | | releases that were given up in the background; one that is awaited answers its error |
//!
//! All of them have the labels `backend` and `mode` of the [store](leasehold_core::Semantics), and `kind`: `exclusive`, `write`,
//! `shared`, and for the parts of a semaphore `permit` and `gate`. No label has the name of a lock: there may be any number of names.

use leasehold_core::{Event, LockClientBuilder, LockMode, LockName, Observer, TracingObserver};
use metrics::{Label, counter, gauge, histogram};
use std::fmt::Debug;
use std::sync::Arc;

/// Gives the client an observer that counts, and writes what [`TracingObserver`] writes. It replaces the one that is there. For
/// [`Registry::connect_with`](crate::Registry::connect_with).
///
/// ```
/// # use leasehold::{Config, DistributedLockExt, Registry};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> leasehold::Result<()> {
/// let config = Config::new("memory:")?;
/// let locks = Registry::default().connect_with(&config, leasehold::metrics::observed).await?;
/// # locks.acquire("a").await?.release().await }
/// ```
pub fn observed(client: LockClientBuilder) -> LockClientBuilder {
    let semantics = client.semantics();
    let store = [Label::new("backend", semantics.backend), Label::new("mode", semantics.mode)];
    client.with_observer(Arc::new(MetricsObserver { store }))
}

#[derive(Debug)]
struct MetricsObserver {
    store: [Label; 2],
}

impl MetricsObserver {
    fn labels(&self, name: &LockName, mode: LockMode) -> Vec<Label> {
        let kind = match (name.slot(), name.semaphore()) {
            (Some(_), _) => "permit",
            (None, Some(_)) => "gate",
            (None, None) => match mode {
                LockMode::Shared => "shared",
                LockMode::Write => "write",
                _ => "exclusive",
            },
        };
        self.store.iter().cloned().chain([Label::new("kind", kind)]).collect()
    }

    fn with(&self, name: &LockName, mode: LockMode, label: Label) -> Vec<Label> {
        let mut labels = self.labels(name, mode);
        labels.push(label);
        labels
    }
}

/// `TimedOut` as `timed_out`.
fn snake_case(variant: impl Debug) -> String {
    let mut word = String::new();
    for letter in format!("{variant:?}").chars() {
        if letter.is_uppercase() && !word.is_empty() {
            word.push('_');
        }
        word.extend(letter.to_lowercase());
    }
    word
}

impl Observer for MetricsObserver {
    fn event(&self, event: &Event<'_>) {
        TracingObserver::default().event(event);
        match *event {
            Event::Waiting { name, mode } => {
                gauge!("leasehold_waiting", self.labels(name, mode)).increment(1);
            }
            Event::Granted { name, mode, .. } => {
                gauge!("leasehold_held", self.labels(name, mode)).increment(1);
            }
            Event::Released { name, mode, held, .. } => {
                gauge!("leasehold_held", self.labels(name, mode)).decrement(1);
                histogram!("leasehold_hold_seconds", self.labels(name, mode)).record(held);
            }
            Event::Lost { name, mode, loss, .. } => {
                gauge!("leasehold_held", self.labels(name, mode)).decrement(1);
                let labels = self.with(name, mode, Label::new("cause", snake_case(loss.cause())));
                counter!("leasehold_lost_total", labels).increment(1);
            }
            Event::Renewed { name, mode, margin, .. } => {
                histogram!("leasehold_renewal_margin_seconds", self.labels(name, mode)).record(margin);
            }
            Event::RenewalFailed { name, mode, .. } => {
                counter!("leasehold_renewal_failures_total", self.labels(name, mode)).increment(1);
            }
            Event::ReleaseUnconfirmed { name, mode, .. } => {
                counter!("leasehold_release_unconfirmed_total", self.labels(name, mode)).increment(1);
            }
            _ => {}
        }
        let (name, mode, waited, has_waited, outcome) = match *event {
            Event::Granted { name, mode, waited, has_waited, .. } => {
                (name, mode, waited, has_waited, "granted".to_owned())
            }
            Event::NotGranted { name, mode, waited, has_waited, error } => {
                (name, mode, waited, has_waited, snake_case(error.kind()))
            }
            Event::Cancelled { name, mode, waited, has_waited } => {
                (name, mode, waited, has_waited, "cancelled".to_owned())
            }
            _ => return,
        };
        let labels = self.with(name, mode, Label::new("outcome", outcome));
        histogram!("leasehold_acquire_seconds", labels).record(waited);
        if has_waited {
            gauge!("leasehold_waiting", self.labels(name, mode)).decrement(1);
        }
    }
}
