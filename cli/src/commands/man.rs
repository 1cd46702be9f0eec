use crate::args::{Cli, ManArgs};
use clap_mangen::Man;
use leasehold::Error;
use leasehold_console::exit::Code;
use leasehold_console::{Failure, unprinted};
use std::io::Write;

/// Prints the manual, or writes a page for each verb.
pub(super) fn man(args: &ManArgs) -> Result<Code, Failure> {
    match &args.directory {
        Some(directory) => clap_mangen::generate_to(Cli::definition(), directory).map_err(|error| {
            let problem = format_args!("cannot write to {}", directory.display());
            Error::invalid("directory", problem, "name one that exists and is yours").with_source(error)
        })?,
        None => {
            let mut page = Vec::new();
            let rendered = Man::new(Cli::definition()).render(&mut page);
            rendered.and_then(|()| std::io::stdout().write_all(&page)).map_err(unprinted)?;
        }
    }
    Ok(Code::SUCCESS)
}
