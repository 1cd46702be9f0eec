use crate::compare::model::{Report, Verdict};
use crate::format::list;

/// What must be known before anything else is read.
pub(crate) fn notices(report: &Report) -> Vec<String> {
    let mut notices = Vec::new();
    if report.interrupted {
        notices.push("This run was interrupted: what is missing was not measured.".to_owned());
    }
    let sentences = [
        (Verdict::Broken, "Something was seen that must not be, and the cards say what"),
        (Verdict::Late, "Bounds were missed, also when tried again, by more than the machine was late"),
        (Verdict::NotJudged, "Not fully judged, and the cards say why"),
    ];
    for (verdict, words) in sentences {
        let stores = report.stores.iter().filter(|store| store.verdict() == verdict);
        let names: Vec<String> = stores.map(|store| store.name.clone()).collect();
        if !names.is_empty() {
            notices.push(format!("{words}: {}.", list(&names, names.len())));
        }
    }
    let missing = report.stores.iter().filter(|store| store.verdict() == Verdict::NotRun);
    let missing: Vec<String> = missing
        .filter_map(|store| Some(format!("{} ({})", store.name, store.not_run.as_ref()?.why)))
        .collect();
    if !missing.is_empty() {
        notices.push(format!("Not run: {}.", list(&missing, missing.len())));
    }
    if report.setup.was_busy() {
        let load = report.setup.load_before.unwrap_or_default();
        notices.push(format!(
            "The machine was busy before the run (load {load:.1} on {} cores): figures of speed are worse than they \
             need be.",
            report.setup.cores
        ));
    }
    notices
}
