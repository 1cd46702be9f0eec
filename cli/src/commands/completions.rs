//! Completion scripts: of the verbs and options by `clap_complete`, and the names of the locks that are held, which the shell asks
//! `leasehold ls --names` for.

use crate::args::{Cli, CompletionsArgs};
use clap_complete::Shell;
use leasehold_console::exit::Code;
use leasehold_console::{Failure, unprinted};
use std::collections::BTreeSet;
use std::io::Write;

const BASH: &str = include_str!("completions/names.bash");
const ZSH: &str = include_str!("completions/names.zsh");
const FISH: &str = include_str!("completions/names.fish");

/// How the line of an argument begins in the script for zsh, if its value is the name of a lock.
const NAMES_IN_ZSH: [&str; 4] = ["':name -- ", "'::name -- ", "'*::names -- ", "'::prefix -- "];
/// The last command of that script, which completes at once: what it needs stands before it.
const LAST_IN_ZSH: &str = "if [ \"$funcstack[1]\" = ";

/// Prints a completion script.
pub(super) fn completions(args: &CompletionsArgs) -> Result<Code, Failure> {
    let mut script = Vec::new();
    let mut command = Cli::without_hidden_verbs();
    clap_complete::generate(args.shell, &mut command, "leasehold", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match args.shell {
        Shell::Bash => format!("{script}{}", BASH.replace("@WITH_VALUE@", &options_with_value(&command))),
        Shell::Zsh => with_names_in_zsh(&script),
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.into_owned(),
    };
    std::io::stdout().write_all(script.as_bytes()).map_err(unprinted)?;
    Ok(Code::SUCCESS)
}

/// The options whose next word is their value, as a pattern of `case`.
fn options_with_value(command: &clap::Command) -> String {
    let all = command.get_subcommands().chain([command]).flat_map(clap::Command::get_arguments);
    let options = all.filter(|arg| !arg.is_positional() && arg.get_action().takes_values());
    let words: BTreeSet<String> = options
        .flat_map(|arg| {
            let short = arg.get_short().map(|short| format!("-{short}"));
            short.into_iter().chain(arg.get_long().map(|long| format!("--{long}")))
        })
        .collect();
    words.into_iter().collect::<Vec<_>>().join(" | ")
}

fn with_names_in_zsh(script: &str) -> String {
    let lines = script.lines().map(|line| {
        let is_name = NAMES_IN_ZSH.iter().any(|beginning| line.starts_with(beginning));
        if is_name { line.replace(":_default'", ":_leasehold_names'") } else { line.to_owned() }
    });
    let script = lines.collect::<Vec<_>>().join("\n") + "\n";
    script.replace(LAST_IN_ZSH, &format!("{ZSH}{LAST_IN_ZSH}"))
}
