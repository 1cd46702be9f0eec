use super::SqliteTable;
use super::network_fs::{layered_file_system, network_file_system};
use leasehold_core::{Finding, Result, Severity};
use rustix::fs::statfs;
use sqlx::Row as _;
use std::path::Path;

const OTHERS_MAY_READ: u32 = 0o044;
const GROUP_MAY_WRITE: u32 = 0o020;
const EVERYONE_MAY_WRITE: u32 = 0o002;

impl SqliteTable {
    /// Findings about settings that weaken the promises, and true if there is a table. A setting that breaks them is an error, here as in
    /// every other use of the file.
    pub(super) async fn findings(&self) -> Result<(Vec<Finding>, bool)> {
        let file = &self.settings.options.path;
        let mut findings = Vec::new();
        let mut find = |severity, code, message: String, help: &str| {
            findings.push(Finding::new(severity, code, message, help.to_owned()));
        };
        if file.find()?.is_none() {
            let message = format!("{file} does not exist yet");
            find(Severity::Info, "I_NEW", message, "nothing to do: the first use makes it, with mode 0600");
        }
        let mode = mode_of(&file.file);
        let told = [
            (EVERYONE_MAY_WRITE, Severity::Error, "E_FILE_MODE", "everyone may free every lock"),
            (GROUP_MAY_WRITE, Severity::Info, "I_FILE_MODE", "its group may free every lock"),
            (OTHERS_MAY_READ, Severity::Info, "I_FILE_MODE", "others may see who holds what"),
        ];
        if let Some((_, severity, code, who)) = told.into_iter().find(|(right, ..)| mode & right != 0) {
            let help = format!("if that is not meant: chmod 600 {file}");
            find(severity, code, format!("{file} has mode {mode:04o}: {who}"), &help);
        }
        let rows = self.reader.run(|| sqlx::query("PRAGMA journal_mode")).await?.rows;
        let journal_mode: Option<String> = rows.first().and_then(|row| row.try_get(0).ok());
        if let Some(mode) = journal_mode.as_ref().filter(|mode| *mode != "wal") {
            let message = format!("{file} is in journal mode {mode}: readers wait for the writer");
            let help =
                "the next lock that is acquired puts it into WAL mode, if no other program keeps it open";
            find(Severity::Warning, "W_JOURNAL", message, help);
        }
        let (directory, own) = (file.directory().display(), "name a file in a directory of your own");
        let (mode, everyone) =
            (mode_of(file.directory()), "everyone may make files there, and clean-up jobs delete old ones");
        let told = [
            (EVERYONE_MAY_WRITE, Severity::Warning, everyone),
            (GROUP_MAY_WRITE, Severity::Info, "its group may replace the file"),
        ];
        if let Some((_, severity, who)) = told.into_iter().find(|(right, ..)| mode & right != 0) {
            find(severity, "W_DIRECTORY", format!("the directory {directory} is shared: {who}"), own);
        }
        let at = statfs(file.directory()).ok();
        if let Some(name) = at.as_ref().and_then(layered_file_system) {
            let message = format!(
                "{directory} is on {name}: another container, or another mount of its lower layer, has a file of its own"
            );
            let help = "name a file on a volume that all of them mount";
            find(Severity::Warning, "W_LAYERED_FS", message, help);
        }
        // Where it is not allowed, it was refused above.
        if let Some(name) = at.as_ref().and_then(network_file_system) {
            let message = format!(
                "{directory} is on {name}, a network file system: processes of other hosts are not excluded"
            );
            let help = "name a file on a disk of this host, or use a store with a server";
            find(Severity::Error, "E_NETWORK_FS", message, help);
        }
        Ok((findings, journal_mode.is_some()))
    }
}

/// The rights to a file; none if it is not there.
fn mode_of(path: &Path) -> u32 {
    rustix::fs::lstat(path).map_or(0, |stat| stat.st_mode & 0o777)
}
