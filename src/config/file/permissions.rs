//! Who could have written a configuration file, and who can read the password in it.

use super::wrong;
use crate::config::expand::expand;
use crate::config::schema::{Contents, is_own};
use leasehold_core::{Finding, Result, Severity, StoreUrl};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const WRITABLE_BY_ALL: u32 = 0o002;
const READABLE_BY_ALL: u32 = 0o004;

pub(super) const IF_TRUSTED: &str = "if you trust it, name it with LEASEHOLD_CONFIG";

/// Refuses a file that somebody else may have put into the working directory, as Git does since CVE-2022-24765: it
/// would choose the store, and could send variables of this environment there. Its group may write to it: with a umask of
/// 002 every file is so, and its group has one member.
pub(super) fn check_author(path: &Path, metadata: &Metadata) -> Result<()> {
    if is_strangers(metadata) {
        let problem = format_args!("it belongs to another user, {}", metadata.uid());
        return Err(wrong(path, problem, IF_TRUSTED));
    }
    if metadata.mode() & WRITABLE_BY_ALL != 0 {
        return Err(wrong(path, "everybody may write to it", IF_TRUSTED));
    }
    Ok(())
}

/// Refuses a link that somebody else has put there, wherever it leads: to a file of our own, which we never meant for this
/// directory. `opened` is what is read, and `named` what the path
/// itself names since then: if they are neither one nor link and target, somebody is at it.
pub(super) fn check_link(path: &Path, named: &Metadata, opened: &Metadata) -> Result<()> {
    if !named.is_symlink() && (named.dev(), named.ino()) != (opened.dev(), opened.ino()) {
        return Err(wrong(path, "it was replaced while it was read", IF_TRUSTED));
    }
    if is_strangers(named) {
        let problem = format_args!("the link to it belongs to another user, {}", named.uid());
        return Err(wrong(path, problem, IF_TRUSTED));
    }
    Ok(())
}

fn is_strangers(metadata: &Metadata) -> bool {
    metadata.uid() != rustix::process::geteuid().as_raw() && metadata.uid() != 0
}

/// Warns of a password that stands in a file which everybody may read.
pub(super) fn exposed_password(path: &Path, contents: &Contents, metadata: &Metadata) -> Option<Finding> {
    if metadata.mode() & READABLE_BY_ALL == 0 || !has_password(contents) {
        return None;
    }
    let path = path.display();
    Some(Finding::new(
        Severity::Warning,
        "W_READABLE",
        format!("everybody may read {path}, and there is a password in it"),
        format!("chmod o-r {path}, or move the password into a file of its own: password_file"),
    ))
}

/// True if a password stands there: one that comes from a variable does not, a default beside a variable does.
fn has_password(contents: &Contents) -> bool {
    let profiles = contents.profiles.values();
    let mut values = profiles.flat_map(|profile| profile.layer.iter());
    values.any(|(key, written)| {
        let text = without_variables(&written.text);
        match key {
            "url" => StoreUrl::parse(&without_blanks(&text)).is_ok_and(|url| url.has_secret()),
            own if is_own(own) => false,
            parameter => StoreUrl::shown_parameter(parameter, &text) != text,
        }
    })
}

fn without_variables(text: &str) -> String {
    expand("", text, |_| Ok(Some(String::new()))).unwrap_or_default()
}

/// The URL without an empty password and without empty parameters, which would be hidden like others.
fn without_blanks(url: &str) -> String {
    let (body, query) = url.split_once('?').unwrap_or((url, ""));
    let parameters = query.split('&').filter(|parameter| !parameter.ends_with('='));
    format!("{}?{}", body.replace(":@", "@"), parameters.collect::<Vec<_>>().join("&"))
}
