//! `docs/generated/broken-locks.md`: every lock of this program, its mistake, and the case that catches it. This program writes it
//! with `LEASEHOLD_WRITE_DOCS=1`, and otherwise compares it.

use crate::control::Control;
use crate::mistakes::MISTAKES;
use leasehold_conformance::by_id;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const WRITE: &str = "LEASEHOLD_WRITE_DOCS";

const HEAD: &str = "\
# Broken locks

A suite that passes everything proves nothing. These locks are broken on purpose, each by one classic mistake, on the real
store where the mistake lives. Each is caught by the case that is named for it, with a message that fits the mistake, by a
forced order and not by luck: a gate, a held reply, a stopped process. The same lock without the mistake passes that case. The
broken one passes the plainest cases, A01 to A03, unless one of them is the case that catches it: somebody would have trusted
it. A number is never given again, so there are gaps.

```sh
cargo test -p leasehold-conformance --test broken_locks
```

";

/// Compares the table with the file, or writes it anew.
pub(crate) fn check(controls: &[Arc<Control>]) -> Result<(), String> {
    let (text, file) = (table(controls)?, of_workspace("docs/generated/broken-locks.md"));
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    } else if read(&file)? != text {
        return Err(format!(
            "docs/generated/broken-locks.md is not what these locks are: run this with {WRITE}=1"
        ));
    }
    let (readme, told) = (read(&of_workspace("README.md"))?, told(controls));
    if readme.contains(&told) { Ok(()) } else { Err(format!("README.md does not say {told:?}")) }
}

/// The words of the README about them.
fn told(controls: &[Arc<Control>]) -> String {
    format!("[{} classic broken locks](docs/generated/broken-locks.md)", numbers(controls).len())
}

fn table(controls: &[Arc<Control>]) -> Result<String, String> {
    let sentences: BTreeMap<u8, &str> = MISTAKES.iter().copied().collect();
    if !sentences.keys().eq(numbers(controls).iter()) {
        return Err("a broken lock without a sentence, or a sentence without a lock".to_owned());
    }
    let mut out = HEAD.to_owned();
    out.push_str("| # | mistake | store | caught by |\n|---:|---|---|---|\n");
    for (number, sentence) in &sentences {
        let of_this: Vec<_> = controls.iter().filter(|control| control.number == *number).collect();
        let cases: Vec<String> = of_this.iter().map(|control| case(control.case)).collect();
        let store = of_this.first().map_or("", |control| control.store());
        let _ = writeln!(out, "| {number} | {sentence} | {store} | {} |", cases.join("<br>"));
    }
    let _ = writeln!(out, "\n{} broken locks, all caught.", sentences.len());
    Ok(out)
}

fn case(id: &str) -> String {
    let property = by_id(id).map_or("", |case| case.property);
    format!("{id} {}", property.replace('_', " "))
}

fn numbers(controls: &[Arc<Control>]) -> BTreeSet<u8> {
    controls.iter().map(|control| control.number).collect()
}

fn of_workspace(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}
