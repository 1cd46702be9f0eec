use leasehold::{Config, ConfigSources, Error};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A host for one test: a working directory, the configurations of a user and of the system, and an environment.
pub(crate) struct TestHost {
    root: TempDir,
    variables: Vec<(String, String)>,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        Self { variables: vec![("HOME".to_owned(), home.to_str().unwrap().to_owned())], root }
    }

    /// A host whose `/etc/leasehold/config.toml` says this.
    pub(crate) fn with_system_file(text: &str) -> Self {
        let host = Self::new();
        host.write("etc.toml", text);
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Writes a file, and answers its path.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        // Independent of the umask, because permissions have a meaning here.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn write_here(&self, text: &str) {
        self.write("work/leasehold.toml", text);
    }

    pub(crate) fn write_users(&self, text: &str) {
        self.write("home/.config/leasehold/config.toml", text);
    }

    pub(crate) fn set(&mut self, variable: &str, value: impl Into<String>) {
        self.variables.push((variable.to_owned(), value.into()));
    }

    pub(crate) fn sources(&self) -> ConfigSources {
        ConfigSources::new()
            .with_environment(self.variables.iter().cloned())
            .with_places(self.path("work"), self.path("etc.toml"))
    }

    pub(crate) fn load(&self) -> Config {
        self.sources().load().unwrap()
    }

    /// The error of loading, with this host's root as `~`.
    pub(crate) fn problem(&self) -> String {
        self.said(&self.sources().load().unwrap_err())
    }

    /// An error as people see it: kind, message, causes, help.
    pub(crate) fn said(&self, error: &Error) -> String {
        let mut said = format!("{:?}: {error}", error.kind());
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            said += &format!(" <- {inner}");
            cause = inner.source();
        }
        if let Some(help) = error.help() {
            said += &format!("; {help}");
        }
        self.shortened(&said)
    }

    /// A text with this host's root as `~`.
    pub(crate) fn shortened(&self, text: &str) -> String {
        text.replace(root(self.root.path()), "~")
    }
}

/// One value as it is shown, and its source.
pub(crate) fn shown(config: &Config, key: &str) -> (String, String) {
    let entry = config.show().into_iter().find(|entry| entry.key == key);
    let entry = entry.unwrap_or_else(|| panic!("no {key}"));
    (entry.value, entry.source.to_string())
}

fn root(path: &Path) -> &str {
    path.to_str().unwrap()
}
