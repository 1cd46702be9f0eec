use super::shell_word;
use clap::{ArgAction, Args, ValueHint};
use std::path::PathBuf;

/// What every verb takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The store, such as redis://host:6379 or sqlite:/var/lib/jobs/locks.db. One with a password is refused here,
    /// where everybody may read it: use LEASEHOLD_URL, or password_file in a profile
    #[arg(short, long, global = true, value_name = "URL", help_heading = STORE)]
    pub(crate) url: Option<String>,

    /// The profile of the configuration file
    #[arg(short, long, global = true, value_name = "NAME", help_heading = STORE)]
    pub(crate) profile: Option<String>,

    /// The configuration file, in place of those that are looked for
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = STORE)]
    pub(crate) config: Option<PathBuf>,

    /// Say only what went wrong, in one line; twice: say nothing
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = OUTPUT)]
    pub(crate) quiet: u8,

    /// Say what is done, on standard error
    #[arg(short, long, global = true, action = ArgAction::SetTrue, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub(crate) verbose: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = OUTPUT)]
    pub(crate) color: clap::ColorChoice,
}

impl Common {
    /// The options by which another call reaches the same store, each behind a blank.
    pub(crate) fn of_store(&self) -> String {
        let config = self.config.as_ref().map(|file| file.to_string_lossy());
        let options =
            [("-u", self.url.as_deref()), ("-p", self.profile.as_deref()), ("--config", config.as_deref())];
        let given = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
        given.map(|(option, value)| format!(" {option} {}", shell_word(value))).collect()
    }
}

const STORE: &str = "Store";
const OUTPUT: &str = "Output";
