use crate::args::{Cli, CompletionsArgs};
use leasehold_console::exit::Code;
use leasehold_console::{Failure, unprinted};
use std::io::Write;

/// Prints a completion script.
pub(super) fn completions(args: &CompletionsArgs) -> Result<Code, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::without_hidden_verbs(), "leasehold", &mut script);
    std::io::stdout().write_all(&script).map_err(unprinted)?;
    Ok(Code::SUCCESS)
}
