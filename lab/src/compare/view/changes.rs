use super::{Column, Datum, Section, Table};
use crate::compare::model::{Change, Difference, Report};
use crate::format::{Tone, count};

/// First of all sections, if an earlier run was named: that is what was asked.
pub(super) fn section(report: &Report) -> Option<Section> {
    let changes = report.changes.as_ref()?;
    let machine = if changes.same_machine {
        "It ran on the same kind of machine."
    } else {
        "It ran on another machine or kernel: the differences are not those of the stores alone."
    };
    let of = |verdict| changes.rows.iter().filter(|row| row.verdict == verdict).count();
    let lead = format!(
        "Beside the run of {}: {} faster, {} slower, {} the same within noise. {machine} The bands are those of the \
         passes; where they touch, nothing can be told.",
        changes.baseline_started_at,
        of(Difference::Faster),
        of(Difference::Slower),
        of(Difference::SameWithinNoise),
    );
    Some(Section {
        id: "changes",
        title: "Since the baseline",
        lead,
        charts: Vec::new(),
        tables: vec![Table {
            id: "changes-table".to_owned(),
            caption: "Rates a second, then and now".to_owned(),
            columns: vec![
                Column::words("Store"),
                Column::words("What"),
                Column::figures("Then"),
                Column::figures("Now"),
                Column::figures("Now / then"),
                Column::words("Verdict"),
            ],
            rows: changes.rows.iter().map(row).collect(),
        }],
    })
}

fn row(change: &Change) -> Vec<Datum> {
    let rate = |rate: crate::bench::Passes| Datum {
        note: Some(format!("{}–{}", count(rate.min), count(rate.max))),
        ..Datum::figure(rate.median, count(rate.median))
    };
    let (tone, mark) = match change.verdict {
        Difference::Faster => (Tone::Good, Some("▲")),
        Difference::Slower => (Tone::Careful, Some("▼")),
        Difference::SameWithinNoise => (Tone::Muted, Some("=")),
    };
    let ratio = Some(change.now.median / change.before.median).filter(|ratio| ratio.is_finite());
    vec![
        Datum::words(&change.store),
        Datum::words(&change.row),
        rate(change.before),
        rate(change.now),
        Datum::maybe(ratio, |ratio| format!("{ratio:.2}")),
        Datum::words(change.verdict.words()).with_tone(tone, mark),
    ]
}
