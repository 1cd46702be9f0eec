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
    /// Findings about settings that weaken the promises. A setting that breaks them is an error, here as in every other use of the file.
    pub(super) async fn findings(&self) -> Result<Vec<Finding>> {
        self.check_open()?;
        let mut findings = Vec::new();
        if self.settings.options.path.find()?.is_none() {
            let message = format!("{} does not exist yet", self.settings.options.path);
            let help = "nothing to do: the first use makes it, with mode 0600";
            findings.push(Finding::new(Severity::Info, "I_NEW", message, help));
        } else {
            findings.extend(self.check_rights());
            findings.extend(self.check_journal().await?);
        }
        findings.extend(self.check_directory());
        findings.extend(self.check_file_system());
        findings.extend(self.check_boot());
        Ok(findings)
    }

    fn check_rights(&self) -> Option<Finding> {
        let file = &self.settings.options.path;
        let mode = mode_of(&file.file)?;
        let (severity, code, who) = match mode {
            mode if mode & EVERYONE_MAY_WRITE != 0 => {
                (Severity::Error, "E_FILE_MODE", "everyone may free every lock")
            }
            mode if mode & GROUP_MAY_WRITE != 0 => {
                (Severity::Info, "I_FILE_MODE", "its group may free every lock")
            }
            mode if mode & OTHERS_MAY_READ != 0 => {
                (Severity::Info, "I_FILE_MODE", "others may see who holds what")
            }
            _ => return None,
        };
        Some(Finding::new(
            severity,
            code,
            format!("{file} has mode {mode:04o}: {who}"),
            format!("if that is not meant: chmod 600 {file}"),
        ))
    }

    fn check_directory(&self) -> Option<Finding> {
        let directory = self.settings.options.path.directory();
        let (severity, who) = match mode_of(directory)? {
            mode if mode & EVERYONE_MAY_WRITE != 0 => {
                (Severity::Warning, "everyone may make files there, and clean-up jobs delete old ones")
            }
            mode if mode & GROUP_MAY_WRITE != 0 => (Severity::Info, "its group may replace the file"),
            _ => return None,
        };
        Some(Finding::new(
            severity,
            "W_DIRECTORY",
            format!("the directory {} is shared: {who}", directory.display()),
            "name a file in a directory of your own",
        ))
    }

    /// The journal mode; `None` if there is no table.
    pub(super) async fn journal_mode(&self) -> Result<Option<String>> {
        let rows = self.reader.run(|| sqlx::query("PRAGMA journal_mode")).await?.rows;
        Ok(rows.first().and_then(|row| row.try_get(0).ok()))
    }

    async fn check_journal(&self) -> Result<Option<Finding>> {
        Ok(match self.journal_mode().await?.as_deref() {
            None | Some("wal") => None,
            Some(mode) => Some(Finding::new(
                Severity::Warning,
                "W_JOURNAL",
                format!(
                    "{} is in journal mode {mode}: who looks waits for who writes",
                    self.settings.options.path
                ),
                "the next lock that is acquired puts it into WAL mode, if no other program keeps it open",
            )),
        })
    }

    /// A network file system where it is allowed, and elsewhere refused; layers, in which each container may have a file of its own.
    fn check_file_system(&self) -> Option<Finding> {
        let directory = self.settings.options.path.directory();
        let at = statfs(directory).ok()?;
        if let Some(name) = layered_file_system(&at) {
            return Some(Finding::new(
                Severity::Warning,
                "W_LAYERED_FS",
                format!(
                    "{} is on {name}: another container, or another mount of its lower layer, has a file of its own",
                    directory.display()
                ),
                "name a file on a volume that all of them mount",
            ));
        }
        let name = network_file_system(&at)?;
        Some(Finding::new(
            Severity::Error,
            "E_NETWORK_FS",
            format!(
                "{} is on {name}, a network file system: processes of other hosts are not excluded",
                directory.display()
            ),
            "name a file on a disk of this host, or use a store with a server",
        ))
    }

    fn check_boot(&self) -> Option<Finding> {
        if self.settings.clock.boot().is_some() {
            return None;
        }
        Some(Finding::new(
            Severity::Info,
            "I_BOOT_HIDDEN",
            "this container hides the kernel's boot id: after a reboot a lease may have to be waited out",
            "nothing to do: that takes one ttl at most",
        ))
    }
}

fn mode_of(path: &Path) -> Option<u32> {
    rustix::fs::lstat(path).ok().map(|stat| stat.st_mode & 0o777)
}
