//! What the replies of the nodes' scripts mean.

use crate::reply::{not_understood, parse, release, text};
use leasehold_core::{FencingToken, Release, Result};
use redis::Value;
use std::time::Duration;

/// What a node has told that holds the name for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClaimReply {
    /// The last token of the name there.
    pub(super) last: u64,
    /// Its clock, in microseconds.
    pub(super) clock: u64,
    /// The token that it has for this very owner.
    pub(super) own: Option<FencingToken>,
}

/// The reply of `claim.lua`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    Mine(ClaimReply),
    /// Another holds it, until then if that is known; or a later attempt of the same owner was there first.
    Busy(Option<Duration>),
    /// The same server is asked under another place too.
    Twice(usize),
}

pub(super) fn claimed(reply: &Value) -> Result<Claimed> {
    let words: Vec<String> = parse(reply)?;
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["mine", last, clock, own] => {
            let own = if own.is_empty() { None } else { Some(FencingToken::new(number(own)?)) };
            Ok(Claimed::Mine(ClaimReply { last: number(last)?, clock: number(clock)?, own }))
        }
        ["busy", left] => Ok(Claimed::Busy(left.parse().ok().map(Duration::from_millis))),
        ["twice", place] => Ok(Claimed::Twice(number(place)?)),
        ["late"] => Ok(Claimed::Busy(None)),
        _ => Err(not_understood()),
    }
}

/// The reply of a script that did something, or found nothing to do.
pub(super) fn done(reply: &Value) -> Result<bool> {
    Ok(release(reply)? == Release::Released)
}

/// The reply to `GET` of a holder record: the attempt, the token, and what stands behind them, which is the time of the grant and
/// the description; nothing if there is none.
pub(super) fn record(reply: &Value) -> Option<[String; 3]> {
    let text = text(reply)?;
    let mut words = text.splitn(3, ' ');
    let (value, token, rest) = (words.next()?, words.next()?, words.next()?);
    Some([value.split(':').nth(1)?, token, rest].map(str::to_owned))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| not_understood())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Value {
        Value::Array(words.iter().map(|word| Value::BulkString(word.as_bytes().into())).collect())
    }

    #[test]
    fn claim_reply_has_four_forms_and_no_other() {
        let bid = ClaimReply { last: 7, clock: 9, own: None };
        assert_eq!(claimed(&words(&["mine", "7", "9", ""])).unwrap(), Claimed::Mine(bid));
        let own = ClaimReply { own: Some(FencingToken::new(5)), ..bid };
        assert_eq!(claimed(&words(&["mine", "7", "9", "5"])).unwrap(), Claimed::Mine(own));
        let busy = |left| Value::Array(vec![Value::BulkString("busy".into()), Value::Int(left)]);
        assert_eq!(claimed(&busy(20)).unwrap(), Claimed::Busy(Some(Duration::from_millis(20))));
        assert_eq!(claimed(&busy(-1)).unwrap(), Claimed::Busy(None));
        assert_eq!(claimed(&words(&["late"])).unwrap(), Claimed::Busy(None));
        assert_eq!(claimed(&words(&["twice", "2"])).unwrap(), Claimed::Twice(2));
        for nonsense in [words(&[]), words(&["mine", "x", "9", ""]), words(&["mine"]), Value::Nil] {
            assert!(claimed(&nonsense).is_err(), "{nonsense:?}");
        }
    }

    #[test]
    fn record_reply_has_attempt_token_and_the_rest() {
        let text = format!("{}:3:2 77 1000 {{\"doing\":\"two words\"}}", "0".repeat(32));
        let told = record(&Value::BulkString(text.into())).unwrap();
        assert_eq!(told, ["3", "77", "1000 {\"doing\":\"two words\"}"]);
        assert_eq!(record(&Value::Nil), None);
        assert_eq!(record(&Value::BulkString("released 7".into())), None);
    }
}
