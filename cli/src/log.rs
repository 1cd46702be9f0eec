use leasehold::backend::nearest;
use leasehold::{Error, ErrorKind};
use leasehold_console::{Failure, WRITE_TIMEOUT, erase_progress, write_within};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

const VARIABLE: &str = "LEASEHOLD_LOG";

/// Writes the log to standard error, if `LEASEHOLD_LOG` asks for it: `info`, `leasehold=debug`, and so on.
pub(crate) fn log_as_asked() -> Result<(), Failure> {
    let Some(filter) = std::env::var_os(VARIABLE).filter(|filter| !filter.is_empty()) else {
        return Ok(());
    };
    let filter = filter.to_str().filter(|filter| !is_misspelt(filter));
    let filter = filter.and_then(|filter| filter.parse::<Targets>().ok()).ok_or_else(|| {
        Error::new(ErrorKind::Misconfigured, format!("{VARIABLE} is not a filter"))
            .with_help("write a level, such as info, or leasehold=debug")
    })?;
    let lines = tracing_subscriber::fmt::layer()
        // The acquisition is a span: its result is known when it closes.
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(|| Log);
    tracing_subscriber::registry().with(lines).with(filter).init();
    Ok(())
}

/// Standard error, as far as somebody reads it.
struct Log;

/// True after an event that nobody took. There may be hundreds between two renewals, and the wait is for one of them only.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);

impl Write for Log {
    /// Never fails: the subscriber would say so, on standard error, and stand still there.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let timeout = if IS_UNREAD.load(Ordering::Relaxed) { Duration::ZERO } else { WRITE_TIMEOUT };
        let bytes = [erase_progress().as_bytes(), event].concat();
        let written = write_within(timeout, io::stderr(), &bytes);
        let is_unread = written.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        IS_UNREAD.store(is_unread, Ordering::Relaxed);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// True if a part of the filter would be taken for the name of a module that does not exist, so that nothing of it is ever
/// logged: a word that is nearly a level, an empty part, or the name of a span.
fn is_misspelt(filter: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    filter.split(',').map(str::trim).any(|part| {
        let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
        part.is_empty()
            || part.ends_with('=')
            || part.contains('[')
            || (!is_level && nearest(part, LEVELS).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_with_misspelt_level_or_span_is_refused() {
        for level in ["info", "DEBUG", "leasehold", "leasehold=debug", "sqlx", "warn,leasehold=trace"] {
            assert!(!is_misspelt(level), "{level}");
        }
        for word in [
            "infoo",
            "inf",
            "tarce",
            "leasehold=info,",
            "bogus=,,",
            "leasehold=",
            "sqlx=debug,inf",
            "leasehold[acquire]=info",
        ] {
            assert!(is_misspelt(word), "{word}");
        }
    }
}
