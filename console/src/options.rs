//! The options of every verb.

#![allow(
    clippy::doc_markdown,
    reason = "the comments of options are what people read in a terminal, where a backtick is a backtick"
)]

use crate::shell_word;
use clap::{ArgAction, Args, ValueHint};
use leasehold::ConfigSources;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::path::PathBuf;

/// The options that name a store. None of them is a secret: a URL with a password is refused, and everything else comes
/// from where this host has it.
#[derive(Clone, Debug, Default, Args, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The store, such as redis://host:6379 or sqlite:/var/lib/jobs/locks.db. One with a password is refused here,
    /// where everybody may read it: use LEASEHOLD_URL, or password_file in a profile
    #[arg(short, long, global = true, value_name = "URL", help_heading = STORE)]
    pub url: Option<String>,

    /// The profile of the configuration file
    #[arg(short, long, global = true, value_name = "NAME", help_heading = STORE)]
    pub profile: Option<String>,

    /// The configuration file, in place of those that are looked for
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = STORE)]
    pub config: Option<PathBuf>,
}

/// The options that say how much is said, and in which colours.
#[derive(Clone, Debug, Args)]
#[non_exhaustive]
pub struct OutputOptions {
    /// Say only what went wrong, in one line; twice: say nothing
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = OUTPUT)]
    pub quiet: u8,

    /// Say what is done, on standard error
    #[arg(short, long, global = true, action = ArgAction::SetTrue, conflicts_with = "quiet", help_heading = OUTPUT)]
    pub verbose: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = OUTPUT)]
    pub color: clap::ColorChoice,
}

const STORE: &str = "Store";
const OUTPUT: &str = "Output";

impl StoreOptions {
    /// The same options with another URL.
    #[must_use]
    pub fn with_url(&self, url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..self.clone() }
    }

    /// The sources of the configuration: these options, the environment, and the files.
    pub fn sources(&self) -> ConfigSources {
        let mut sources = ConfigSources::of_this_process();
        if let Some(url) = &self.url {
            sources = sources.with_public_url(url);
        }
        if let Some(profile) = &self.profile {
            sources = sources.with_profile(profile);
        }
        if let Some(file) = &self.config {
            sources = sources.with_file(file);
        }
        sources
    }

    /// Each option that is given, and its value: what another call needs to reach the same store.
    pub fn arguments(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        let url = self.url.as_deref().map(OsStr::new);
        let profile = self.profile.as_deref().map(OsStr::new);
        let config = self.config.as_deref().map(OsStr::new);
        let options = [("-u", url), ("-p", profile), ("--config", config)];
        options.into_iter().filter_map(|(option, value)| Some((option, value?)))
    }

    /// The same as text for a shell, with a blank before each option.
    pub fn shell_words(&self) -> String {
        let words = self.arguments();
        words.map(|(option, value)| format!(" {option} {}", shell_word(&value.to_string_lossy()))).collect()
    }
}
