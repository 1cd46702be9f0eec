//! The worker processes of one store.

use super::bench_store::BenchStore;
use super::job::{Job, JobResult};
use leasehold_console::Failure;
use leasehold_console::exit::Code;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The name of the verb that starts a worker.
pub(super) const VERB: &str = "bench-worker";
/// Timeout for a worker that is told to end: it gives back what it holds.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);

/// One worker. Dropped, it sees the end of its input, and ends by itself.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    child: Child,
    /// Closed when it is to end.
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl WorkerProcess {
    /// Starts one for this store.
    pub(super) fn start(target: &BenchStore) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::internal("cannot start a worker", error);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        target.tell(&mut command);
        let mut child =
            command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let missing = || failed(io::ErrorKind::BrokenPipe.into());
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        Ok(Self { child, input: Some(input), output: BufReader::new(output).lines() })
    }

    pub(super) async fn ask(&mut self, job: &Job) -> Result<JobResult, Failure> {
        self.tell(job).await?;
        self.answer().await
    }

    pub(super) async fn tell(&mut self, job: &Job) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(job).map_err(|error| Failure::internal("cannot write", error))?;
        line.push(b'\n');
        let written = match &mut self.input {
            Some(input) => input.write_all(&line).await.is_ok(),
            None => false,
        };
        if written { Ok(()) } else { Err(self.has_failed().await) }
    }

    pub(super) async fn answer(&mut self) -> Result<JobResult, Failure> {
        match self.output.next_line().await {
            Ok(Some(line)) => {
                serde_json::from_str(&line).map_err(|error| Failure::internal("cannot read", error))
            }
            _ => Err(self.has_failed().await),
        }
    }

    /// Waits until it has given everything back.
    pub(super) async fn end(self) {
        let Self { mut child, input, output } = self;
        drop(output);
        let _ = status(&mut child, input).await;
    }

    /// It has said itself what was wrong, unless it was killed.
    async fn has_failed(&mut self) -> Failure {
        let Some(status) = status(&mut self.child, self.input.take()).await else {
            return Failure::internal("a worker hung", io::Error::from(io::ErrorKind::TimedOut));
        };
        if let Some(signal) = status.signal() {
            return Failure::internal("a worker was killed", io::Error::other(format!("signal {signal}")));
        }
        let code = status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
        Failure::silent(code.map_or(Code::INTERNAL, Code::new))
    }
}

/// Closes the input of the worker, which tells it to end, and waits for its exit.
async fn status(child: &mut Child, input: Option<ChildStdin>) -> Option<ExitStatus> {
    drop(input);
    match tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await {
        Ok(status) => status.ok(),
        Err(_) => {
            let _ = child.kill().await;
            None
        }
    }
}
