//! The scripts: every change of a lock is one of these, one atomic step in the server.
//!
//! What each guarantees stands at its head. Two rules hold for all of them:
//!
//! * The keys that a script touches are named in `KEYS`, and the keys of one name lie in one slot.
//! * A script that has granted something does not end with an error. So the server's word "error" always means "not
//!   applied", and never "perhaps".
//!
//! A script that begins or ends a hold is put together from two parts: first what costs nothing if nobody waits, and
//! returns; then, by way of `hand_over.lua`, what concerns the queue.

use redis::Cmd;
use std::sync::OnceLock;

pub(crate) static ACQUIRE: Script = Script::new(concat!(
    include_str!("acquire.lua"),
    include_str!("hand_over.lua"),
    include_str!("enqueue.lua"),
));
pub(crate) static ACQUIRE_BATCH: Script = Script::new(include_str!("acquire_batch.lua"));
pub(crate) static RENEW: Script =
    Script::new(concat!(include_str!("replica.lua"), include_str!("extend.lua"), include_str!("renew.lua"),));
pub(crate) static RELEASE: Script = Script::new(concat!(
    include_str!("release.lua"),
    include_str!("replica.lua"),
    include_str!("release_rest.lua"),
    include_str!("hand_over.lua"),
    include_str!("pass_on.lua"),
));
pub(crate) static RELEASE_BATCH: Script = Script::new(include_str!("release_batch.lua"));
pub(crate) static TAKE_BACK: Script = Script::new(concat!(
    include_str!("replica.lua"),
    include_str!("take_back.lua"),
    include_str!("release.lua"),
    include_str!("release_rest.lua"),
    include_str!("hand_over.lua"),
    include_str!("pass_on.lua"),
));
pub(crate) static INSPECT: Script = Script::new(include_str!("inspect.lua"));
pub(crate) static WAITERS: Script = Script::new(include_str!("waiters.lua"));
pub(crate) static FORCE_RELEASE: Script = Script::new(concat!(
    include_str!("replica.lua"),
    include_str!("force_release.lua"),
    include_str!("hand_over.lua"),
    include_str!("pass_on.lua"),
));

#[cfg(feature = "bench")]
pub(crate) static RAW_ACQUIRE: Script = Script::new(include_str!("raw_acquire.lua"));
#[cfg(feature = "bench")]
pub(crate) static RAW_RELEASE: Script = Script::new(include_str!("raw_release.lua"));
#[cfg(feature = "bench")]
pub(crate) static RAW_RELEASE_TELLING: Script = Script::new(include_str!("raw_release_telling.lua"));

/// A script, and the digest under which a server that has seen it keeps it.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(source: &'static str) -> Self {
        Self { source, digest: OnceLock::new() }
    }

    /// The call of a script that the server has.
    pub(crate) fn by_digest(&self, keys: &[&str], args: &[&str]) -> Cmd {
        let digest = self.digest.get_or_init(|| redis::Script::new(self.source).get_hash().to_owned());
        call("EVALSHA", digest, keys, args)
    }

    /// The call of a script that the server may not have: it carries the script itself. The server keeps it then, so
    /// that one request is enough where `SCRIPT LOAD` would be a second, with a fault of its own between the two.
    pub(crate) fn in_full(&self, keys: &[&str], args: &[&str]) -> Cmd {
        call("EVAL", self.source, keys, args)
    }

    /// The command in this line of the script, counted from 1 as the server's messages do.
    pub(crate) fn command_in_line(&self, line: usize) -> Option<&'static str> {
        let line = self.source.lines().nth(line.checked_sub(1)?)?;
        let (_, call) = line.split_once("call('")?;
        call.split_once('\'').map(|(command, _)| command)
    }
}

fn call(command: &str, script: &str, keys: &[&str], args: &[&str]) -> Cmd {
    let bytes = |parts: &[&str]| parts.iter().map(|part| part.len()).sum::<usize>();
    let size = command.len() + script.len() + bytes(keys) + bytes(args) + 4;
    let mut call = Cmd::with_capacity(3 + keys.len() + args.len(), size);
    call.arg(command).arg(script).arg(keys.len()).arg(keys).arg(args);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_called_by_the_digest_of_its_very_text() {
        let call = INSPECT.by_digest(&["a", "b"], &["c"]);
        let digest = redis::Script::new(include_str!("inspect.lua"));
        let expected = redis::cmd("EVALSHA")
            .arg(digest.get_hash())
            .arg(2)
            .arg("a")
            .arg("b")
            .arg("c")
            .get_packed_command();
        assert_eq!(call.get_packed_command(), expected);
    }

    #[test]
    fn a_line_of_a_script_tells_its_command() {
        let script =
            Script::new("-- head\nlocal a = redis.call('GET', KEYS[1])\nreturn redis.pcall('PTTL', KEYS[1])");
        assert_eq!(script.command_in_line(1), None);
        assert_eq!(script.command_in_line(2), Some("GET"));
        assert_eq!(script.command_in_line(3), Some("PTTL"));
        assert_eq!(script.command_in_line(0), None);
        assert_eq!(script.command_in_line(99), None);
    }
}
