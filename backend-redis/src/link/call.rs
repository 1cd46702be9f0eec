use crate::scripts::Script;
use redis::{Cmd, Value};

/// The call of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
    /// True to ask for keys that are on their way to this node of a cluster.
    pub(crate) asking: bool,
}

impl<'a> Call<'a> {
    pub(crate) fn new(script: &'static Script, keys: &'a [&'a str], args: &'a [&'a str]) -> Self {
        Self { script, keys, args, asking: false }
    }

    /// The script, by its digest or in full.
    pub(super) fn command(&self, in_full: bool) -> Cmd {
        match in_full {
            false => self.script.by_digest(self.keys, self.args),
            true => self.script.in_full(self.keys, self.args),
        }
    }

    /// What is said before it: good for one command.
    pub(super) fn before(&self) -> Option<Cmd> {
        self.asking.then(|| redis::cmd("ASKING"))
    }
}

/// The reply to the last of several commands. If that is an error, the error of the first that was refused: it is why, as
/// that of `ASKING`, without which a node sends back where one was sent from.
pub(super) fn last_or_refusal(mut replies: Vec<Value>) -> Value {
    let refused = replies.iter().position(|reply| matches!(reply, Value::ServerError(_)));
    match replies.last() {
        Some(Value::ServerError(_)) => replies.swap_remove(refused.unwrap_or_default()),
        _ => replies.pop().unwrap_or(Value::Nil),
    }
}
