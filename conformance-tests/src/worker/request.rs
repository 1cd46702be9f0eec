use crate::running_client::Role;
use crate::workload::Workload;
use leasehold_core::{LockMode, LockName};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// What a case asks of a [`Worker`](super::Worker): one line of JSON. The answer is a line too: `done`, if nothing else is said.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Acquires. The name, the ttl, the mode, and true to wait: `token N`, or `error KIND`.
    Acquire(LockName, Duration, LockMode, bool),
    /// Acquires a permit. The name, the ttl, and the number of permits: `token N`, or `error KIND`.
    Permit(LockName, Duration, u32),
    /// Takes permits, and sees in a directory that there are never more holders than allowed. The name, the number of permits,
    /// how often, and the directory.
    Occupy(LockName, u32, u64, PathBuf),
    /// Campaigns and leads for ever, and answers nothing. The name, the ttl, and a file that changes all the time while it leads.
    Lead(LockName, Duration, PathBuf),
    /// `held`, `lost CAUSE`, `released`, or `none`.
    Status,
    /// `released`, `none`, or `error KIND`.
    Release,
    /// Looks at a lock in each way in which an operator can.
    Look(LockName),
    /// The process id, and the seconds of the boot clock.
    Identity,
    /// Writes a history.
    History(Workload),
    // To clients at work in the process, any number at once, each with connections of its own.
    /// Lets one begin its work.
    Start(Role, Workload),
    /// Waits until the first one has had the lock: `token N`.
    Held,
    /// Waits until all but those that wait have had an answer, or until that takes too long.
    Answered(Duration),
    /// Lets those of this role, or all, give back what they have, and end.
    Leave(Option<Role>),
    /// Lets the first one make its connections, and whatever else comes with a first use of a lock.
    WarmUp(LockName),
    // To the process.
    /// Blocks every thread on which clients run.
    Starve(Duration),
    /// Lets the process have no more file descriptors than it has, not even in place of one that it closes; or as many
    /// again as it had.
    MayOpenFiles(bool),
    /// Ends a lock by the backend's own administration: where no other process reaches the store.
    ForceRelease(LockName),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_with_spaces_and_escapes_in_its_path_is_read_as_it_was_written() {
        let workload = Workload {
            directory: "/tmp/two words/100%/%20/x".into(),
            name: LockName::new("a name of words").unwrap(),
            seed: 7,
            ttl: Duration::from_millis(1_500),
            lasts: Duration::ZERO,
            readers: 30,
        };
        let line = serde_json::to_string(&Request::History(workload.clone())).unwrap();
        assert!(!line.contains('\n'), "{line}");
        let Request::History(read) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        assert_eq!(
            (read.directory, read.name, read.seed, read.readers),
            (workload.directory, workload.name, 7, 30)
        );
    }
}
