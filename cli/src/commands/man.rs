use super::unprinted;
use crate::args::{Cli, ManArgs};
use crate::exit::Code;
use crate::report::Failure;
use clap_mangen::Man;
use std::io::Write;

/// Prints the manual, or writes a page for each verb.
pub(super) fn man(args: &ManArgs) -> Result<Code, Failure> {
    match &args.directory {
        Some(directory) => clap_mangen::generate_to(Cli::definition(), directory)
            .map_err(|error| Failure::internal("cannot write the manual", error))?,
        None => {
            let mut page = Vec::new();
            let rendered = Man::new(Cli::definition()).render(&mut page);
            rendered.and_then(|()| std::io::stdout().write_all(&page)).map_err(unprinted)?;
        }
    }
    Ok(Code::SUCCESS)
}
