use super::Failure;
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
    let filter = filter.to_str().and_then(|filter| EnvFilter::try_new(filter).ok()).ok_or_else(|| {
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
