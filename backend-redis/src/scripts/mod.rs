//! The scripts: every change of a lock is one of these, one atomic step in the server.
//!
//! Each command is one file; a line `-- include lib.lua` stands for what they share. Two rules hold for all of them:
//!
//! * `KEYS` names all keys of a name, always in the same order, and they lie in one slot. Two scripts name the lock and its
//!   holder record alone: while a slot of a cluster moves, a request that names a key which does not exist is refused.
//! * A claim that was granted is not answered with an error. So the server's "error" always means "not applied".

use crate::keys::LockKeys;
use redis::Cmd;
use std::sync::OnceLock;

pub(crate) static ACQUIRE: Script = Script::new(include_str!("acquire.lua"));
pub(crate) static RENEW: Script = Script::of_hold(include_str!("renew.lua"));
pub(crate) static RELEASE: Script = Script::new(include_str!("release.lua"));
pub(crate) static INSPECT: Script = Script::of_hold(include_str!("inspect.lua"));
pub(crate) static WAITERS: Script = Script::new(include_str!("waiters.lua"));
pub(crate) static FORCE_RELEASE: Script = Script::new(include_str!("force_release.lua"));

const INCLUDE: &str = "-- include lib.lua\n";
const LIB: &str = include_str!("lib.lua");

/// A script.
#[derive(Debug)]
pub(crate) struct Script {
    file: &'static str,
    /// How many of the keys of a name it needs, from the first on.
    keys_per_name: usize,
    text: OnceLock<Text>,
}

#[derive(Debug)]
struct Text {
    source: String,
    /// A server that has seen the script keeps it under this digest.
    digest: String,
}

impl Script {
    pub(crate) const fn new(file: &'static str) -> Self {
        Self { file, keys_per_name: 5, text: OnceLock::new() }
    }

    const fn of_hold(file: &'static str) -> Self {
        Self { file, keys_per_name: 2, text: OnceLock::new() }
    }

    /// The keys of a name that the script needs.
    pub(crate) fn keys_of<'a>(&self, keys: &'a LockKeys) -> impl Iterator<Item = &'a str> {
        keys.all().into_iter().take(self.keys_per_name)
    }

    /// The call of a script that the server has.
    pub(crate) fn by_digest(&self, keys: &[&str], args: &[&str]) -> Cmd {
        call("EVALSHA", &self.text().digest, keys, args)
    }

    /// The call of a script that the server may not have: it carries the script itself. The server keeps it then, so that one
    /// request is enough where `SCRIPT LOAD` would be a second, with a fault of its own between the two.
    pub(crate) fn in_full(&self, keys: &[&str], args: &[&str]) -> Cmd {
        call("EVAL", &self.text().source, keys, args)
    }

    /// The command in this line of the script, counted from 1 as the server's messages do.
    pub(crate) fn command_in_line(&self, line: usize) -> Option<&str> {
        let line = self.text().source.lines().nth(line.checked_sub(1)?)?;
        let (_, call) = line.split_once("call('")?;
        call.split_once('\'').map(|(command, _)| command)
    }

    fn text(&self) -> &Text {
        self.text.get_or_init(|| {
            let source = self.file.replace(INCLUDE, LIB);
            let digest = redis::Script::new(&source).get_hash().to_owned();
            Text { source, digest }
        })
    }
}

fn call(command: &str, script: &str, keys: &[&str], args: &[&str]) -> Cmd {
    redis::cmd(command).arg(script).arg(keys.len()).arg(keys).arg(args).take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_called_by_the_digest_of_its_text() {
        let script = Script::new("-- include lib.lua\nreturn 1\n");
        let digest = redis::Script::new(&format!("{LIB}return 1\n")).get_hash().to_owned();
        let expected =
            redis::cmd("EVALSHA").arg(digest).arg(2).arg("a").arg("b").arg("c").get_packed_command();
        assert_eq!(script.by_digest(&["a", "b"], &["c"]).get_packed_command(), expected);
    }

    #[test]
    fn line_of_a_script_tells_its_command() {
        let script =
            Script::new("-- head\nlocal a = redis.call('GET', KEYS[1])\nreturn redis.pcall('PTTL', KEYS[1])");
        assert_eq!(script.command_in_line(1), None);
        assert_eq!(script.command_in_line(2), Some("GET"));
        assert_eq!(script.command_in_line(3), Some("PTTL"));
        assert_eq!(script.command_in_line(0), None);
        assert_eq!(script.command_in_line(99), None);
    }
}
