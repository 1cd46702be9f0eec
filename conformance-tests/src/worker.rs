//! Worker processes: this very program, executed again, taking locks on command. For what only another process can
//! show: crashes, pauses, clocks of its own.

mod shifts;

use crate::case::Stop;
use crate::servers::{spawn_lasting, until_still};
use crate::subject::Subject;
use crate::workload::{Interrupted, Workload};
use leasehold_core::{AcquireOptions, LockGuard, LockName, Wait};
use rustix::process::{Pid, Signal, kill_process};
use shifts::Shifts;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};

/// Tells a process that it is a worker, of which subject, and where the store is.
const ENVIRONMENT: &str = "LEASEHOLD_CONFORMANCE_WORKER";

/// How long a worker may take for an answer that needs no waiting for a lock.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// A worker process, seen from the case that drives it. Killed when dropped.
pub(crate) struct Worker {
    child: std::process::Child,
    requests: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) async fn start(
        subject: &str,
        address: &str,
        environment: &[(String, String)],
    ) -> Result<Self, Stop> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(ENVIRONMENT, format!("{subject}\n{address}"));
        command.envs(environment.iter().map(|(key, value)| (key, value)));
        let mut child = spawn_lasting(&command, |command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Stop::Failed("a worker without pipes".to_owned()));
        };
        let mut worker = Self {
            child,
            requests: ChildStdin::from_std(requests)?,
            answers: BufReader::new(ChildStdout::from_std(answers)?).lines(),
        };
        worker.expect("ready").await?;
        Ok(worker)
    }

    /// Acquires, and answers the token.
    pub(crate) async fn take(&mut self, name: &LockName, ttl: Duration) -> Result<u64, Stop> {
        let answer = self.ask(&format!("take {} {name}", ttl.as_millis())).await?;
        token(&answer)
    }

    /// Begins to acquire, and does not wait for the end of it.
    pub(crate) async fn begin_take(&mut self, name: &LockName, ttl: Duration) -> Result<(), Stop> {
        self.send(&format!("take {} {name}", ttl.as_millis())).await
    }

    /// `held`, `lost Cause`, or `none`: the worker's belief, worked out when it is asked.
    pub(crate) async fn status(&mut self) -> Result<String, Stop> {
        self.ask("status").await
    }

    /// `released`, or `error KIND`.
    pub(crate) async fn release(&mut self) -> Result<String, Stop> {
        self.ask("release").await
    }

    /// Adds one to the number in a file, so many times, each time under the lock.
    pub(crate) async fn begin_count(&mut self, times: u32, file: &str, name: &LockName) -> Result<(), Stop> {
        self.send(&format!("count {times} {file} {name}")).await
    }

    pub(crate) async fn counted(&mut self) -> Result<(), Stop> {
        self.expect("counted").await
    }

    /// Begins to write a history.
    pub(crate) async fn begin_history(&mut self, workload: &Workload) -> Result<(), Stop> {
        self.send(&format!("history {workload}")).await
    }

    /// Begins to take the lock and read what it protects.
    pub(crate) async fn begin_effect(&mut self, workload: &Workload) -> Result<(), Stop> {
        self.send(&format!("read {workload}")).await
    }

    /// Lets it write, whether or not it still holds, and release.
    pub(crate) async fn end_effect(&mut self) -> Result<(), Stop> {
        self.send("write").await?;
        self.done().await
    }

    /// Waits until it has done what was begun.
    pub(crate) async fn done(&mut self) -> Result<(), Stop> {
        self.expect("done").await
    }

    /// Its number in the operating system.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::CONT);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it: nothing in it runs.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        until_still(&self.child);
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    async fn ask(&mut self, request: &str) -> Result<String, Stop> {
        self.send(request).await?;
        self.answer().await
    }

    async fn send(&mut self, request: &str) -> Result<(), Stop> {
        self.requests.write_all(format!("{request}\n").as_bytes()).await?;
        Ok(self.requests.flush().await?)
    }

    async fn answer(&mut self) -> Result<String, Stop> {
        let line = tokio::time::timeout(ANSWER_WITHIN, self.answers.next_line()).await;
        match line {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => Err(Stop::Failed("a worker ended".to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Stop::Failed(format!("a worker said nothing within {ANSWER_WITHIN:?}"))),
        }
    }

    async fn expect(&mut self, expected: &str) -> Result<(), Stop> {
        let answer = self.answer().await?;
        if answer == expected { Ok(()) } else { Err(Stop::Failed(format!("a worker said {answer:?}"))) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

fn token(answer: &str) -> Result<u64, Stop> {
    let token = answer.strip_prefix("token ").and_then(|token| token.parse().ok());
    token.ok_or_else(|| Stop::Failed(format!("a worker said {answer:?} instead of a token")))
}

/// True if this process was started as a worker of the suite. For a `main` with something else to do: it need not make
/// its subjects to find that out.
pub fn is_worker() -> bool {
    std::env::var_os(ENVIRONMENT).is_some()
}

/// The subject and the address that this process was told, if it was started as a worker of the suite. For a `main` whose
/// subjects are made of what it is called with.
pub fn worker_order() -> Option<(String, String)> {
    let order = std::env::var(ENVIRONMENT).ok()?;
    order.split_once('\n').map(|(subject, address)| (subject.to_owned(), address.to_owned()))
}

/// If this process is a worker of the suite, serves until its requests end. For a `main` of your own that runs cases
/// with [`run_case`](crate::run_case): call it before anything else.
pub fn serve_as_worker(subjects: &[Arc<dyn Subject>]) -> Option<ExitCode> {
    let order = std::env::var(ENVIRONMENT).ok()?;
    let outcome = order
        .split_once('\n')
        .ok_or_else(|| Stop::Failed("an order without an address".to_owned()))
        .and_then(|(name, address)| serve(subjects, name, address));
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            let _ = writeln!(std::io::stderr(), "worker: {stop:?}");
            ExitCode::FAILURE
        }
    })
}

fn serve(subjects: &[Arc<dyn Subject>], name: &str, address: &str) -> Result<(), Stop> {
    let subject = subjects.iter().find(|subject| subject.name() == name);
    let subject = subject.ok_or_else(|| Stop::Failed(format!("no subject {name:?} in this program")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let client = subject.connect(address).await?;
        say("ready")?;
        let mut requests = BufReader::new(tokio::io::stdin()).lines();
        let (mut guard, mut interrupted) = (None, None);
        let mut shifts = Shifts::new(&**subject, address);
        while let Some(request) = requests.next_line().await? {
            let mut words = request.split(' ');
            let verb = words.next().unwrap_or_default();
            let answer = match verb {
                "take" => take(&client, &mut words, &mut guard).await?,
                "status" => status(guard.as_ref()),
                "release" => match guard.take() {
                    Some(guard) => {
                        guard.release().await.map_or_else(|error| refusal(&error), |()| "released".into())
                    }
                    None => "none".to_owned(),
                },
                "count" => count(&client, &mut words).await?,
                "history" => done(rest(&mut words).parse::<Workload>()?.run(client.clone()).await)?,
                "read" => {
                    let workload = rest(&mut words).parse()?;
                    interrupted = Some(Interrupted::begin(&workload, client.clone()).await?);
                    done(Ok(()))?
                }
                "write" => match interrupted.take() {
                    Some(effect) => done(effect.end().await)?,
                    None => "none".to_owned(),
                },
                _ => shifts.answer(verb, &rest(&mut words)).await?,
            };
            say(&answer)?;
        }
        Ok(())
    })
}

type Words<'a, 'b> = &'a mut std::str::Split<'b, char>;

async fn take(
    client: &crate::context::Client,
    words: Words<'_, '_>,
    guard: &mut Option<LockGuard>,
) -> Result<String, Stop> {
    let ttl = Duration::from_millis(number(words)?);
    let name = LockName::new(rest(words))?;
    let options = AcquireOptions::new().with_ttl(ttl).with_wait(Wait::Forever);
    Ok(match client.acquire_with(&name, &options).await {
        Ok(new) => {
            let token = new.token().map_or_else(|error| refusal(&error), |token| format!("token {token}"));
            *guard = Some(new);
            token
        }
        Err(error) => refusal(&error),
    })
}

fn status(guard: Option<&LockGuard>) -> String {
    match guard {
        None => "none".to_owned(),
        Some(guard) if guard.is_held() => "held".to_owned(),
        Some(guard) => guard.loss().map_or("released".to_owned(), |loss| format!("lost {:?}", loss.cause())),
    }
}

/// Reads, waits a moment, writes: any overlap of two holders loses a count.
async fn count(client: &crate::context::Client, words: Words<'_, '_>) -> Result<String, Stop> {
    let times: u64 = number(words)?;
    let file = words.next().unwrap_or_default().to_owned();
    let name = LockName::new(rest(words))?;
    for _ in 0..times {
        let guard = client.acquire_with(&name, &AcquireOptions::new()).await?;
        let before: u64 = std::fs::read_to_string(&file)?.trim().parse().unwrap_or(0);
        tokio::task::yield_now().await;
        std::fs::write(&file, (before + 1).to_string())?;
        guard.release().await?;
    }
    Ok("counted".to_owned())
}

fn number(words: Words<'_, '_>) -> Result<u64, Stop> {
    let word = words.next().unwrap_or_default();
    word.parse().map_err(|_| Stop::Failed(format!("{word:?} is no number")))
}

fn rest(words: Words<'_, '_>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

fn refusal(error: &leasehold_core::Error) -> String {
    format!("error {:?}", error.kind())
}

fn done(outcome: Result<(), Stop>) -> Result<String, Stop> {
    outcome.map(|()| "done".to_owned())
}

fn say(answer: &str) -> Result<(), Stop> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{answer}")?;
    Ok(out.flush()?)
}
