//! `run --reentrant`: a command runs under the hold of a command above it.
//!
//! The variables of this process prove nothing: a daemon keeps those of the lock under which it was started. So the hold must be that of
//! a process above this one, by `/proc`, and the store must know its token. Then the loss of the lock stops that process with all that it
//! has started, this command too.

use crate::lock_request::LockRequest;
use crate::nesting::Stack;
use crate::run::environment::LOCK_VARIABLES;
use crate::watchdog;
use leasehold::{Error, ErrorKind, LockName};
use leasehold_console::{Failure, OpenStore};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a command above this one was told of the lock that it runs under.
pub(crate) type LockVariables = BTreeMap<String, String>;

/// The hold of a command above this one.
pub(crate) struct HoldAbove {
    pub(crate) variables: LockVariables,
    pub(crate) token: u64,
}

/// The hold of the requested lock by a command above this one; `None` if there is none.
pub(crate) async fn find_hold_above(
    stack: &Stack,
    store: &OpenStore,
    request: &LockRequest,
) -> Result<Option<HoldAbove>, Failure> {
    let [name] = request.names() else {
        return Err(Error::invalid("--reentrant", "with several names", "name one lock").into());
    };
    let Some((entry, is_here)) = stack.innermost(store, name) else { return Ok(None) };
    let ancestors = Ancestors::of_this_process().ok_or_else(cannot_look)?;
    let Some(variables) = ancestors.find_holder(name, entry.token)? else {
        return Ok(None);
    };
    if !is_here {
        let problem = format_args!("a command above this one holds {name:?} in another store");
        let fix = "name that store, by the same URL and prefix; or leave --reentrant out";
        return Err(Error::invalid("--reentrant", problem, fix).into());
    }
    match entry.find_hold(store, name).await? {
        Some(hold) if hold.mode.is_shared() => {
            let problem = format_args!("{name:?} is held shared above, and is wanted alone");
            let fix =
                "take it alone on the outside: two readers that wait to be alone would wait for each other";
            Err(Error::invalid("--reentrant", problem, fix).into())
        }
        Some(_) => Ok(Some(HoldAbove { variables, token: entry.token })),
        None => {
            let message = format!("lock {name:?} of a command that this one runs under was lost");
            Err(Error::new(ErrorKind::Lost, message).with_help("the command above is being stopped").into())
        }
    }
}

/// The processes above this one, this one first.
struct Ancestors(Vec<PathBuf>);

impl Ancestors {
    fn of_this_process() -> Option<Self> {
        let mut process = std::fs::read_link("/proc/self").ok()?.to_str()?.parse::<u32>().ok()?;
        (process == std::process::id()).then_some(())?;
        let mut all = Vec::new();
        while process > 0 {
            let directory = PathBuf::from(format!("/proc/{process}"));
            let status = std::fs::read_to_string(directory.join("status")).ok()?;
            all.push(directory);
            process = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        }
        Some(Self(all))
    }

    /// What the command was told that runs right under a watchdog and this lock.
    fn find_holder(&self, name: &LockName, token: u64) -> Result<Option<LockVariables>, Failure> {
        for pair in self.0.windows(2) {
            let [command, parent] = pair else { continue };
            let words = std::fs::read(parent.join("cmdline")).unwrap_or_default();
            if words.split(|byte| *byte == 0).next() != Some(watchdog::NAME.as_bytes()) {
                continue;
            }
            let environment = std::fs::read(command.join("environ")).map_err(|_| cannot_look())?;
            let variables = lock_variables(&environment);
            if describes(&variables, name, token) {
                return Ok(Some(variables));
            }
        }
        Ok(None)
    }
}

fn lock_variables(environment: &[u8]) -> LockVariables {
    let entries = environment.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let pairs = entries.filter_map(|entry| entry.split_once('='));
    let ours = pairs.filter(|(name, _)| LOCK_VARIABLES.contains(name));
    ours.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn describes(variables: &LockVariables, name: &LockName, token: u64) -> bool {
    let value = |variable| variables.get(variable).map(String::as_str);
    if value("LEASEHOLD_NAME") == Some(name.as_str()) {
        return value("LEASEHOLD_TOKEN") == Some(token.to_string().as_str());
    }
    let tokens = value("LEASEHOLD_TOKENS").and_then(|tokens| serde_json::from_str(tokens).ok());
    tokens.is_some_and(|tokens: BTreeMap<String, u64>| tokens.get(name.as_str()) == Some(&token))
}

fn cannot_look() -> Failure {
    let problem = "the processes above this one cannot be looked at in /proc";
    Error::invalid("--reentrant", problem, "mount a /proc of this user's processes, or leave it out").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_describe_one_lock_or_each_of_a_set() {
        let name = |name: &str| LockName::new(name).unwrap();
        let one = lock_variables(b"A=b\0LEASEHOLD_NAME=x\0LEASEHOLD_TOKEN=7\0LEASEHOLD_URL=u\0");
        assert!(describes(&one, &name("x"), 7) && !one.contains_key("LEASEHOLD_URL"));
        assert!(!describes(&one, &name("x"), 8) && !describes(&one, &name("y"), 7));
        let set = lock_variables(b"LEASEHOLD_TOKENS={\"a\":1,\"b\":2}\0");
        assert!(describes(&set, &name("b"), 2) && !describes(&set, &name("b"), 1));
    }
}
