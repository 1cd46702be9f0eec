use super::Failure;
use leasehold::backend::nearest;
use leasehold::{Error, ErrorKind};
use std::io;
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
        .with_writer(io::stderr)
        .init();
    Ok(())
}

/// A word that is nearly a level would be taken for the name of a module, of which nothing is ever heard.
fn is_misspelt(filter: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = LEVELS.iter().any(|level| filter.eq_ignore_ascii_case(level));
    !is_level && nearest(filter, LEVELS).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_no_module() {
        for level in ["info", "DEBUG", "leasehold", "leasehold=debug", "sqlx", "warn,leasehold=trace"] {
            assert!(!is_misspelt(level), "{level}");
        }
        for word in ["infoo", "inf", "tarce"] {
            assert!(is_misspelt(word), "{word}");
        }
    }
}
