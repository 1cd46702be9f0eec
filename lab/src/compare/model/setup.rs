use crate::bench::{cores, load_average};
use serde::{Deserialize, Serialize};

/// On what, and how, it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setup {
    /// System, release, architecture.
    pub(crate) kernel: String,
    /// `None` where the system does not tell.
    pub(crate) cpu: Option<String>,
    pub(crate) cores: usize,
    /// How many tasks wanted a processor, on average over a minute, before the run and after it.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    /// How long one measurement of speed is, and how often it was repeated.
    pub(crate) window_ms: u64,
    pub(crate) passes: usize,
    /// True if this run has started the servers itself, for nobody else.
    pub(crate) private_servers: bool,
    /// What a reader must know before believing a figure.
    pub(crate) caveats: Vec<String>,
}

impl Setup {
    /// This machine, with these measurements of speed.
    pub(crate) fn here(window_ms: u64, passes: usize, private_servers: bool) -> Self {
        let system = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            kernel: format!(
                "{} {} {}",
                text(system.sysname()),
                text(system.release()),
                text(system.machine())
            ),
            cpu: cpu(),
            cores: cores(),
            load_before: load_average(),
            load_after: None,
            window_ms,
            passes,
            private_servers,
            caveats: Vec::new(),
        }
    }

    /// True if something else wanted more than half of the machine when the run began.
    pub(crate) fn was_busy(&self) -> bool {
        self.load_before.unwrap_or(0.0) > self.cores as f64 / 2.0
    }
}

/// The model of the first processor, by `proc_cpuinfo(5)`.
fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}
