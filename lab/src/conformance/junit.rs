//! `JUnit`'s XML, as CI servers read it: a suite for each subject, a case for each case.

use crate::result_file::write_result;
use leasehold_conformance::{CaseOutcome, CaseResult, Tally};
use leasehold_console::Failure;
use std::fmt::{self, Display, Write};
use std::path::Path;

/// Writes the results, and that they are not all if the run was interrupted.
pub(super) fn write(file: &Path, results: &[CaseResult], interrupted: bool) -> Result<(), Failure> {
    write_result(file, document(results, interrupted).as_bytes())
}

fn document(results: &[CaseResult], interrupted: bool) -> String {
    let mut subjects: Vec<&str> = results.iter().map(|result| result.subject.as_str()).collect();
    subjects.sort_unstable();
    subjects.dedup();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let totals = Totals(results);
    let _ = writeln!(out, "<testsuites name=\"leasehold conformance\" {totals}>");
    for subject in subjects {
        let of_this: Vec<CaseResult> =
            results.iter().filter(|result| result.subject == subject).cloned().collect();
        let _ = writeln!(out, "  <testsuite name=\"{}\" {}>", XmlText(subject), Totals(&of_this));
        if interrupted {
            let _ =
                writeln!(out, "    <properties><property name=\"interrupted\" value=\"true\"/></properties>");
        }
        of_this.iter().for_each(|result| case(&mut out, result));
        let _ = writeln!(out, "  </testsuite>");
    }
    out + "</testsuites>\n"
}

fn case(out: &mut String, result: &CaseResult) {
    let (subject, name) = (XmlText(&result.subject), format!("{}_{}", result.case, result.property));
    let _ = write!(
        out,
        "    <testcase classname=\"{subject}\" name=\"{}\" time=\"{}\"",
        XmlText(&name),
        seconds(result)
    );
    let _ = match &result.outcome {
        CaseOutcome::Passed => writeln!(out, "/>"),
        CaseOutcome::Failed { why } => fault(out, "failure", "failed", why),
        CaseOutcome::Late { why } => fault(out, "failure", "late", why),
        CaseOutcome::NotJudged { why } => fault(out, "error", "not judged", why),
        CaseOutcome::Skipped { why } => writeln!(out, "><skipped message=\"{}\"/></testcase>", XmlText(why)),
    };
}

fn fault(out: &mut String, element: &str, kind: &str, why: &str) -> fmt::Result {
    writeln!(out, "><{element} type=\"{kind}\" message=\"{0}\">{0}</{element}></testcase>", XmlText(why))
}

fn seconds(result: &CaseResult) -> f64 {
    result.took_ms as f64 / 1000.0
}

struct Totals<'a>(&'a [CaseResult]);

impl Display for Totals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { failed, late, not_judged, skipped, .. } = Tally::count(self.0);
        let (tests, time) = (self.0.len(), self.0.iter().map(seconds).sum::<f64>());
        write!(
            f,
            "tests=\"{tests}\" failures=\"{}\" errors=\"{not_judged}\" skipped=\"{skipped}\" time=\"{time:.3}\"",
            failed + late
        )
    }
}

/// Text between quotes or tags. What XML cannot say at all, such as an escape of the terminal, is shown as it is written
/// in Rust.
struct XmlText<'a>(&'a str);

impl Display for XmlText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\n' => f.write_str("&#10;")?,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    write!(f, "{}", c.escape_debug())?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_text_is_escaped() {
        assert_eq!(
            XmlText("a<b> & \"c\"\n\u{1b}[2J\u{0}é\u{ffff}").to_string(),
            "a&lt;b&gt; &amp; &quot;c&quot;&#10;\\u{1b}[2J\\0é\\u{ffff}"
        );
    }
}
