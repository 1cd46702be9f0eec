use super::Failure;
use super::promptly::{PATIENCE, write_within};
use anstream::{AutoStream, ColorChoice};
use leasehold::backend::nearest;
use leasehold::{Error, ErrorKind};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

const VARIABLE: &str = "LEASEHOLD_LOG";

/// Writes the log to standard error, if `LEASEHOLD_LOG` asks for it: `info`, `leasehold=debug`, and so on.
pub(crate) fn log_as_asked() -> Result<(), Failure> {
    let Some(filter) = std::env::var_os(VARIABLE).filter(|filter| !filter.is_empty()) else {
        return Ok(());
    };
    let filter = filter.to_str().filter(|filter| !is_misspelt(filter));
    let filter = filter.and_then(|filter| EnvFilter::try_new(filter).ok()).ok_or_else(|| {
        Error::new(ErrorKind::Misconfigured, format!("{VARIABLE} is not a filter"))
            .with_help("write a level, such as info, or leasehold=debug")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        // The acquisition is a span: what came of it is known when it closes.
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(AutoStream::choice(&io::stderr()) != ColorChoice::Never)
        .with_writer(|| Log)
        .init();
    Ok(())
}

/// Standard error, as far as somebody reads it.
struct Log;

/// True after an event that nobody took. There may be hundreds between two renewals, and the wait is for one of them only.
static IS_UNREAD: AtomicBool = AtomicBool::new(false);

impl Write for Log {
    /// Never fails: the subscriber would say so, on standard error, and stand still there.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let patience = if IS_UNREAD.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE };
        let written = write_within(patience, io::stderr(), event);
        let is_unread = written.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        IS_UNREAD.store(is_unread, Ordering::Relaxed);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A word that is nearly a level would be taken for the name of a module, of which nothing is ever heard. So would a part that
/// names no level, or nothing.
fn is_misspelt(filter: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    filter.split(',').map(str::trim).any(|part| {
        let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
        part.is_empty() || part.ends_with('=') || (!is_level && nearest(part, LEVELS).is_some())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_no_module() {
        for level in ["info", "DEBUG", "leasehold", "leasehold=debug", "sqlx", "warn,leasehold=trace"] {
            assert!(!is_misspelt(level), "{level}");
        }
        for word in ["infoo", "inf", "tarce", "leasehold=info,", "bogus=,,", "leasehold=", "sqlx=debug,inf"] {
            assert!(is_misspelt(word), "{word}");
        }
    }
}
