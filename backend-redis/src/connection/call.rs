use super::replicas::ConfirmKind;
use crate::scripts::Script;
use crate::target::Replicas;
use redis::{Cmd, ServerErrorKind, Value};

/// The call of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) keys: &'a [&'a str],
    pub(crate) args: &'a [&'a str],
    /// True to ask for keys that are on their way to this node of a cluster.
    pub(crate) asking: bool,
    /// So many replicas are to have what it writes.
    pub(crate) confirm: Option<(Replicas, ConfirmKind)>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(script: &'static Script, keys: &'a [&'a str], args: &'a [&'a str]) -> Self {
        Self { script, keys, args, asking: false, confirm: None }
    }

    /// The script, by its digest or in full; behind the command that is good for the next one.
    pub(super) fn commands(&self, in_full: bool) -> Vec<Cmd> {
        let script = match in_full {
            false => self.script.by_digest(self.keys, self.args),
            true => self.script.in_full(self.keys, self.args),
        };
        let asking = self.asking.then(|| redis::cmd("ASKING"));
        asking.into_iter().chain([script]).collect()
    }
}

/// The last of several replies. If that is an error, the first error, which caused it: without `ASKING` a node refuses the call.
pub(super) fn last_or_refusal(mut replies: Vec<Value>) -> Value {
    let refused = replies.iter().position(|reply| matches!(reply, Value::ServerError(_)));
    match replies.last() {
        Some(Value::ServerError(_)) => replies.swap_remove(refused.unwrap_or_default()),
        _ => replies.pop().unwrap_or(Value::Nil),
    }
}

/// True if the server, or one claim of a request to it, says that it is no primary. Where it was found may lead to another
/// server by now, be it a Sentinel or a name in the DNS; so the next request makes a connection. Requests under way are
/// refused too, and that nothing was done is a better answer than none.
pub(super) fn is_demoted(reply: &Value) -> bool {
    let is_replica = |kind| matches!(kind, ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown);
    match reply {
        Value::ServerError(error) => error.kind().is_some_and(is_replica),
        Value::Array(answers) => answers.iter().any(is_demoted),
        _ => false,
    }
}

pub(super) fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript))
}
