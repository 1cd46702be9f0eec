//! What the driver was told.

use crate::Outcome;
use leasehold_lab::load::LoadKind;
use std::collections::HashMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) url: String,
    pub(crate) work: Work,
    pub(crate) kind: LoadKind,
    pub(crate) tasks: usize,
    pub(crate) process: u64,
    pub(crate) rows: Option<PathBuf>,
    pub(crate) hold: Duration,
    pub(crate) drops: bool,
    pub(crate) ramp: Duration,
    pub(crate) grace: Duration,
    pub(crate) names: usize,
    prefix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Uncontended,
    Contended,
    /// Pairs of names of their own, without a lock library.
    ByHand,
    Hold,
}

impl Arguments {
    pub(crate) fn of(mut words: impl Iterator<Item = String>) -> Outcome<Self> {
        let usage = "usage: leasehold-driver URL unc|con|hand|hold [KEY=VALUE ...]";
        let (url, work) = words.next().zip(words.next()).ok_or(usage)?;
        let work = match work.as_str() {
            "unc" => Work::Uncontended,
            "con" => Work::Contended,
            "hand" => Work::ByHand,
            "hold" => Work::Hold,
            _ => return Err(usage.into()),
        };
        let pairs =
            words.filter_map(|word| word.split_once('=').map(|(key, value)| (key.into(), value.into())));
        let given = Given(pairs.collect());
        let kind = match given.0.get("kind") {
            Some(kind) if matches!(work, Work::Uncontended | Work::Contended) => kind_of(kind)?,
            Some(_) => return Err("hand and hold know no kind: their locks are exclusive".into()),
            None => LoadKind::Exclusive,
        };
        Ok(Self {
            url,
            work,
            kind,
            tasks: given.number("conc", 1)?,
            process: given.number("id", 0)?,
            rows: given.0.get("out").map(PathBuf::from),
            hold: Duration::from_micros(given.number("hold_us", 0)?),
            drops: given.number("drop", 0_u8)? != 0,
            ramp: Duration::from_millis(given.number("ramp", 0)?),
            grace: Duration::from_millis(given.number("grace", 300)?),
            names: given.number("n", 10_000)?,
            prefix: given.0.get("prefix").cloned().unwrap_or_else(|| "k".to_owned()),
        })
    }

    /// The names that the tasks take.
    pub(crate) fn task_names(&self) -> Vec<String> {
        let (prefix, process) = (&self.prefix, self.process);
        match self.work {
            Work::Uncontended | Work::ByHand => {
                (0..self.tasks).map(|task| format!("{prefix}-{process}-{task}")).collect()
            }
            Work::Contended | Work::Hold => vec![prefix.clone()],
        }
    }
}

fn kind_of(text: &str) -> Outcome<LoadKind> {
    let permits = text.strip_prefix("permits:").and_then(|permits| permits.parse().ok());
    match (text, permits) {
        ("exclusive", _) => Ok(LoadKind::Exclusive),
        ("read", _) => Ok(LoadKind::Read),
        ("mixed", _) => Ok(LoadKind::Mixed),
        (_, Some(permits)) => Ok(LoadKind::Permits(permits)),
        _ => Err(format!("unknown kind {text:?}: write exclusive, read, mixed or permits:N").into()),
    }
}

struct Given(HashMap<String, String>);

impl Given {
    fn number<T: FromStr>(&self, key: &str, default: T) -> Outcome<T> {
        match self.0.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{key} is no number in range: {text:?}").into()),
        }
    }
}
