//! The table, mutation by case.

use crate::mutation::Mutation;
use std::fmt::Write as _;
use std::path::Path;

const WRITE: &str = "LEASEHOLD_WRITE_DOCS";

const HEAD: &str = "\
# Value mutations

Each parameter and each answer of a backend is given a wrong value, one at a time, in front of the memory backend; and each case that
a store in memory can show runs over it, in virtual time. A mutation that no case notices is no mistake, for the reason that stands
there, or would be a hole in the suite, and the test fails. A mode, the holds of several readers, the owners that a store suspects,
and the waiters of a queue are put to the families that look at them. What only a lost reply or a second process shows is among the
[broken locks](broken-locks.md).

```sh
cargo test -p leasehold-conformance --test value_mutations
```

";

/// Compares the table with the file, or writes it anew. No mutation is left without a case or a reason.
pub(crate) fn check(mutations: &[Mutation], noticed: &[Vec<&'static str>]) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (mutation, by) in mutations.iter().zip(noticed) {
        match (by.is_empty(), mutation.excuse) {
            (true, None) => {
                wrong.push(format!(
                    "{}, {}, {}: no case notices it",
                    mutation.value, mutation.change, mutation.holders
                ));
            }
            (false, Some(_)) => {
                wrong
                    .push(format!("{}, {}: noticed by {by:?}, and excused", mutation.value, mutation.change));
            }
            _ => {}
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/generated/value-mutations.md");
    let text = table(mutations, noticed);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    } else if std::fs::read_to_string(&file).unwrap_or_default() != text {
        wrong.push(format!(
            "docs/generated/value-mutations.md is not what these mutations are: run this with {WRITE}=1"
        ));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn table(mutations: &[Mutation], noticed: &[Vec<&'static str>]) -> String {
    let mut out = HEAD.to_owned();
    out.push_str("| value | becomes | noticed by |\n|---|---|---|\n");
    let mut last = String::new();
    for (mutation, by) in mutations.iter().zip(noticed) {
        let mut value = mutation.value.to_owned();
        if !mutation.holders.is_empty() {
            value = format!("{value}, for {} alone", mutation.holders);
        }
        let value = if value == std::mem::replace(&mut last, value.clone()) { "" } else { &value };
        let by = mutation.excuse.map_or_else(|| by.join(" "), |excuse| format!("*no mistake:* {excuse}"));
        let _ = writeln!(out, "| {value} | {} | {by} |", mutation.change);
    }
    let excused = mutations.iter().filter(|mutation| mutation.excuse.is_some()).count();
    let all = mutations.len();
    let _ = writeln!(out, "\nNoticed: {} of {all}. The other {excused} are no mistakes.", all - excused);
    out
}
