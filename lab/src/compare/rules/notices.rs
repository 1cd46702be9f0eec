use crate::compare::model::Report;
use crate::format::list;

/// What must be known before anything else is read.
pub(crate) fn notices(report: &Report) -> Vec<String> {
    let mut notices = Vec::new();
    if report.interrupted {
        notices.push("This run was interrupted: what is missing was not measured.".to_owned());
    }
    let broken: Vec<String> =
        report.stores.iter().filter(|store| store.is_broken()).map(|store| store.name.clone()).collect();
    if !broken.is_empty() {
        notices.push(format!(
            "Something was seen that must not be, or a fault that was to be shown touched nothing: {}.",
            list(&broken, broken.len())
        ));
    }
    let missing: Vec<String> = report
        .stores
        .iter()
        .filter_map(|store| Some(format!("{} ({})", store.name, store.not_run.as_ref()?)))
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
