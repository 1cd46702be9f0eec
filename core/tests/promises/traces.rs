//! The default observer: one event of `tracing` for each event that has no caller.

use leasehold_core::{
    Error, ErrorKind, Event, FencingToken, LockMode, LockName, Loss, LossCause, Observer, TracingObserver,
};
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

/// Records each event as a line: level, target, fields.
#[derive(Clone, Default)]
struct LineRecorder(Arc<Mutex<Vec<String>>>);

struct LineVisitor(String);

impl Visit for LineVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for LineRecorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = LineVisitor(format!("{} {}", event.metadata().level(), event.metadata().target()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn event_is_logged_with_its_level_and_lock() {
    let (name, error) = (LockName::new("job").unwrap(), Error::new(ErrorKind::Unavailable, "no answer"));
    let (loss, token, mode) = (Loss::new(LossCause::Gone), FencingToken::new(7), LockMode::Exclusive);
    let events = [
        (Event::Lost { name: &name, mode, token, loss: &loss }, "ERROR", "lost: the store no longer has it"),
        (
            Event::RenewalFailed { name: &name, mode, error: &error, remaining: Duration::from_secs(1) },
            "WARN",
            "renew_failed: no answer",
        ),
        (Event::LateGrant { name: &name }, "DEBUG", "late_grant"),
        (
            Event::ReleaseUnconfirmed { name: &name, mode, error: &error },
            "WARN",
            "release_unconfirmed: no answer",
        ),
        (
            Event::WaitFailed { name: &name, error: &error, failing_for: Duration::from_secs(20) },
            "WARN",
            "wait_failed: no answer",
        ),
        (
            Event::ServerChanged { address: "db:1", before: "a", now: "b" },
            "WARN",
            "server_changed: db:1 is b now, and was a",
        ),
    ];
    let lines = LineRecorder::default();
    tracing::subscriber::with_default(lines.clone(), || {
        for (event, ..) in &events {
            TracingObserver::default().event(event);
        }
    });
    let lines = lines.0.lock().unwrap().clone();
    assert_eq!(lines.len(), events.len());
    for (line, (_, level, message)) in lines.iter().zip(&events) {
        assert!(line.starts_with(&format!("{level} leasehold ")), "{line}");
        let is_of_a_lock = !message.starts_with("server_changed");
        assert!(line.contains(message) && line.contains("lock.name=job") == is_of_a_lock, "{line}");
    }
    assert!(lines[0].contains("lock.fencing_token=7"), "{}", lines[0]);
    assert!(lines[4].contains("failing_for=20s"), "{}", lines[4]);
}
