//! What the bench and its workers say to each other over standard input and output: lines of JSON; turns follow as bytes.

use super::bench_store::BenchStore;
use super::row_result::HeldFigures;
use crate::load::{Load, Turn};
use leasehold_console::Failure;
use leasehold_console::exit::Code;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The name of the verb that starts a worker.
const VERB: &str = "bench-worker";
/// Timeout for a worker that is told to end: it gives back what it holds.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);
const BYTES_A_TURN: usize = 7 * 8;

/// One thing to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "job", rename_all = "snake_case")]
pub(super) enum Job {
    /// Takes a lock and gives it back: connects, and makes what the store needs. `for_all` rows, or for one of them.
    Open {
        name: String,
        for_all: bool,
    },
    Load(Load),
    /// Holds so many names.
    Hold {
        names: String,
        count: usize,
        ttl_ms: u64,
        time_ms: u64,
    },
}

impl Job {
    /// True unless nothing can be measured without it.
    pub(super) fn is_of_row(&self) -> bool {
        !matches!(self, Self::Open { for_all: true, .. })
    }
}

/// What came of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub(super) enum JobResult {
    /// The store has no room for it.
    Failed {
        why: String,
    },
    Opened,
    /// So many turns follow. Some tasks may have failed.
    Loaded {
        turns: usize,
        cpu: f64,
        failed: Option<String>,
    },
    Held(HeldFigures),
}

/// A line and what follows it, as a worker writes them.
pub(super) fn encode(result: &JobResult, turns: &[Turn]) -> Result<Vec<u8>, Failure> {
    let mut out = line(result)?;
    out.reserve_exact(turns.len() * BYTES_A_TURN);
    for turn in turns {
        let Turn { task, asked, acquired, ends, released, token, slot } = *turn;
        for number in [task, asked, acquired, ends, released, token, slot] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    Ok(out)
}

fn decode(bytes: &[u8]) -> Vec<Turn> {
    let (numbers, _) = bytes.as_chunks::<8>();
    let (turns, _) = numbers.as_chunks::<7>();
    let turn = |numbers: &[[u8; 8]; 7]| {
        let [task, asked, acquired, ends, released, token, slot] = numbers.map(u64::from_le_bytes);
        Turn { task, asked, acquired, ends, released, token, slot }
    };
    turns.iter().map(turn).collect()
}

fn line(value: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut line = serde_json::to_vec(value).map_err(|error| Failure::internal("cannot write", error))?;
    line.push(b'\n');
    Ok(line)
}

/// One worker. Dropped, it sees the end of its input, and ends by itself.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    child: Child,
    /// Closed when it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl WorkerProcess {
    /// Starts one for this store.
    pub(super) fn start(target: &BenchStore) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::internal("cannot start a worker", error);
        // This very program, also if its file was replaced meanwhile.
        let mut command = Command::new("/proc/self/exe");
        target.tell(&mut command);
        let mut child =
            command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let missing = || failed(io::ErrorKind::BrokenPipe.into());
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        Ok(Self { child, input: Some(input), output: BufReader::new(output) })
    }

    pub(super) async fn tell(&mut self, job: &Job) -> Result<(), Failure> {
        let line = line(job)?;
        let written = match &mut self.input {
            Some(input) => input.write_all(&line).await.is_ok(),
            None => false,
        };
        if written { Ok(()) } else { Err(self.has_failed().await) }
    }

    /// The answer, and the turns that follow it.
    pub(super) async fn answer(&mut self) -> Result<(JobResult, Vec<Turn>), Failure> {
        let (mut line, mut bytes) = (String::new(), Vec::new());
        if !matches!(self.output.read_line(&mut line).await, Ok(1..)) {
            return Err(self.has_failed().await);
        }
        let result = serde_json::from_str(&line).map_err(|error| Failure::internal("cannot read", error))?;
        if let JobResult::Loaded { turns, .. } = result {
            bytes.resize(turns * BYTES_A_TURN, 0);
            if self.output.read_exact(&mut bytes).await.is_err() {
                return Err(self.has_failed().await);
            }
        }
        Ok((result, decode(&bytes)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_written_and_read_are_unchanged() {
        let turn = Turn { task: 1, asked: 2, acquired: 3, ends: 4, released: u64::MAX, token: 6, slot: 7 };
        let result = JobResult::Loaded { turns: 2, cpu: 0.5, failed: None };
        let bytes = encode(&result, &[turn, Turn::default()]).unwrap();
        let behind = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        assert_eq!(decode(&bytes[behind..]), [turn, Turn::default()]);
    }
}
