//! `JUnit`'s XML, as CI servers read it: a suite for each subject, a case for each case.

use crate::result_file::write_result;
use crate::template::{render, text};
use leasehold_conformance::{CaseResult, Tally};
use leasehold_console::Failure;
use minijinja::{Value, context};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes the results, and that they are not all if the run was interrupted.
pub(super) fn write(file: &Path, results: &[CaseResult], interrupted: bool) -> Result<(), Failure> {
    write_result(file, document(results, interrupted)?.as_bytes())
}

fn document(results: &[CaseResult], interrupted: bool) -> Result<String, Failure> {
    let mut subjects = BTreeMap::<&str, Vec<&CaseResult>>::new();
    for result in results {
        subjects.entry(&result.subject).or_default().push(result);
    }
    let suites = subjects.into_iter().map(|(subject, results)| {
        let cases: Vec<Value> = results.iter().map(|result| case(result)).collect();
        context! { subject => text(subject), cases, ..counts(&results) }
    });
    let all = counts(&results.iter().collect::<Vec<_>>());
    let suites: Vec<Value> = suites.collect();
    render("junit.xml", include_str!("junit.xml"), context! { all, suites, interrupted })
}

fn counts(results: &[&CaseResult]) -> Value {
    let Tally { failed, late, not_judged, skipped, .. } = Tally::count(results.iter().copied());
    let seconds = results.iter().map(|result| result.took_ms).sum::<u64>() as f64 / 1000.0;
    context! { tests => results.len(), failed, late, not_judged, skipped, seconds }
}

fn case(result: &CaseResult) -> Value {
    let outcome = serde_json::to_value(&result.outcome).unwrap_or_default();
    let of_outcome = |field: &str| text(outcome[field].as_str().unwrap_or_default());
    let name = text(&format!("{}_{}", result.case, result.property));
    context! { is => of_outcome("is"), name, why => of_outcome("why"), seconds => result.took_ms as f64 / 1000.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_text_of_any_kind_is_escaped() {
        let why = "a<b> & \"c\"\n\u{1b}[2J\u{0}é\u{ffff}";
        let result = serde_json::json!({
            "subject": "redis", "case": "A02", "property": "p", "outcome": { "is": "failed", "why": why }, "took_ms": 7,
        });
        let written = document(&[serde_json::from_value(result).unwrap()], false).unwrap();
        let escaped = "a&lt;b&gt; &amp; &quot;c&quot;\n\\u{1b}[2J\\0é\\u{ffff}";
        assert!(written.contains(&format!("message=\"{escaped}\">{escaped}</failure>")), "{written}");
    }
}
