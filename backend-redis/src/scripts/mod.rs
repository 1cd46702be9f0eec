//! The scripts: every change of a lock is one of these, one atomic step in the server.
//!
//! Each command is one file that reads from top to bottom; a line such as `-- include lib.lua` stands for that file. Two rules hold for all of them:
//!
//! * Each script names all keys that it may use. They lie in one slot, and their order is the same in all scripts: the keys of one kind
//!   for all claims, then those of the next kind. Scripts that renew name no key that may be missing: while a slot of a cluster moves,
//!   a request that names a missing key is refused.
//! * A claim that was granted is not answered with an error: a call that ends with an error has granted nothing.

use crate::keys::LockKeys;
use redis::Cmd;
use std::sync::OnceLock;

pub(crate) static ACQUIRE: Script =
    Script::with_keys(include_str!("acquire.lua"), &[LOCK, HOLDER, OWNERS, TOKEN]);
pub(crate) static ACQUIRE_IN_TURN: Script = Script::new(include_str!("acquire_in_turn.lua"));
pub(crate) static RENEW: Script = Script::with_keys(include_str!("renew.lua"), &[LOCK, HOLDER]);
pub(crate) static RENEW_SHARED: Script =
    Script::with_keys(include_str!("renew_shared.lua"), &[LOCK, OWNERS, SHARED]);
pub(crate) static RELEASE: Script = Script::new(include_str!("release.lua"));
pub(crate) static INSPECT: Script = Script::new(include_str!("inspect.lua"));
pub(crate) static WAITERS: Script = Script::new(include_str!("waiters.lua"));
pub(crate) static FORCE_RELEASE: Script = Script::new(include_str!("force_release.lua"));

/// The places of the keys of a name in [`LockKeys::all`].
pub(crate) const LOCK: usize = 0;
pub(crate) const HOLDER: usize = 1;
const OWNERS: usize = 2;
pub(crate) const TOKEN: usize = 3;
const QUEUE: usize = 4;
const SHARED: usize = 5;

const INCLUDED: [(&str, &str); 3] = [
    ("-- include lib.lua", include_str!("lib.lua")),
    ("-- include queue.lua", include_str!("queue.lua")),
    ("-- include node.lua", include_str!("../redlock/scripts/node.lua")),
];

#[derive(Debug)]
pub(crate) struct Script {
    file: &'static str,
    /// Which of the keys of a name it needs.
    keys: &'static [usize],
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
        Self::with_keys(file, &[LOCK, HOLDER, OWNERS, TOKEN, QUEUE, SHARED])
    }

    pub(crate) const fn with_keys(file: &'static str, keys: &'static [usize]) -> Self {
        Self { file, keys, text: OnceLock::new() }
    }

    pub(crate) fn is_renewal(&self) -> bool {
        [&RENEW, &RENEW_SHARED].into_iter().any(|script| std::ptr::eq(script, self))
    }

    /// `KEYS` for these names.
    pub(crate) fn keys_of<'a>(&self, names: &[&'a LockKeys]) -> Vec<&'a str> {
        self.keys.iter().flat_map(|kind| names.iter().map(|keys| keys.all()[*kind])).collect()
    }

    /// The call of the script by its digest, or in full for a server that may not have it. The server keeps it then, so that one
    /// request is enough where `SCRIPT LOAD` would be a second, with a fault of its own between the two.
    pub(crate) fn call(&self, in_full: bool, keys: &[&str], args: &[&str]) -> Cmd {
        let Text { source, digest } = self.text();
        let (command, script) = if in_full { ("EVAL", source) } else { ("EVALSHA", digest) };
        redis::cmd(command).arg(script).arg(keys.len()).arg(keys).arg(args).take()
    }

    /// The command in this line of the script, counted from 1 as the server's messages do.
    pub(crate) fn command_in_line(&self, line: usize) -> Option<&str> {
        let line = self.text().source.lines().nth(line.checked_sub(1)?)?;
        let (_, call) = line.split_once("call('")?;
        call.split_once('\'').map(|(command, _)| command)
    }

    fn text(&self) -> &Text {
        self.text.get_or_init(|| {
            let mut source = self.file.to_owned();
            for (line, file) in INCLUDED {
                source = source.replace(line, file);
            }
            let source = without_comments(&source);
            let digest = redis::Script::new(&source).get_hash().to_owned();
            Text { source, digest }
        })
    }
}

/// A slow network carries the script once for each connection to a server that has forgotten it.
fn without_comments(source: &str) -> String {
    let lines =
        source.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with("--"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_called_by_the_digest_of_its_text() {
        let script = Script::new("-- include lib.lua\n  return 1\n");
        let lib = without_comments(include_str!("lib.lua"));
        let digest = redis::Script::new(&format!("{lib}return 1\n")).get_hash().to_owned();
        let expected =
            redis::cmd("EVALSHA").arg(digest).arg(2).arg("a").arg("b").arg("c").get_packed_command();
        assert_eq!(script.call(false, &["a", "b"], &["c"]).get_packed_command(), expected);
    }

    #[test]
    fn line_of_a_script_tells_its_command() {
        let script = Script::new(
            "-- head\n\n  local a = redis.call('GET', KEYS[1])\nreturn redis.pcall('PTTL', KEYS[1])",
        );
        assert_eq!(script.command_in_line(1), Some("GET"), "comments are not sent");
        assert_eq!(script.command_in_line(2), Some("PTTL"));
        assert_eq!(script.command_in_line(0), None);
        assert_eq!(script.command_in_line(99), None);
    }
}
