//! The other side: a worker process, which serves the case that has started it.

use super::ENVIRONMENT;
use super::kinds::{lead, occupy, permit};
use super::running_clients::RunningClients;
use crate::case::Stop;
use crate::context::Client;
use crate::history::{RecordedPermits, Recorder};
use crate::subject::Subject;
use crate::workload::{Interrupted, Workload, of_one_word};
use leasehold_core::{AcquireOptions, DistributedLockExt, LockGuard, LockMode, LockName, Wait};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

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
        let mut clients = RunningClients::new(&**subject, address);
        while let Some(request) = requests.next_line().await? {
            let mut words = request.split(' ');
            let verb = words.next().unwrap_or_default();
            let answer = match verb {
                "take" => take(&client, &mut words, &mut guard, (Wait::Forever, LockMode::Exclusive)).await?,
                "share" => take(&client, &mut words, &mut guard, (Wait::Forever, LockMode::Shared)).await?,
                "try" => take(&client, &mut words, &mut guard, (Wait::No, LockMode::Exclusive)).await?,
                "identity" => identity(),
                "permit" => {
                    let (limit, ttl) = (number(&mut words)?, Duration::from_millis(number(&mut words)?));
                    match permit((&**subject, &client), (limit, ttl, &rest(&mut words))).await {
                        Ok(new) => {
                            let answer = format!("token {}", new.token()?);
                            guard = Some(new);
                            answer
                        }
                        Err(stop) => format!("error {stop:?}"),
                    }
                }
                "occupy" => {
                    let (limit, times) = (number(&mut words)?, number(&mut words)?);
                    let directory = of_one_word(words.next().unwrap_or_default());
                    let name = LockName::new(rest(&mut words))?;
                    let permits = subject.kinds().semaphore(&*client, &name, limit)?;
                    let recorder = Recorder::create(&directory)?;
                    let permits = RecordedPermits { permits, name, limit, recorder };
                    let outcome = occupy(&permits, times, &directory, &AcquireOptions::new()).await;
                    outcome.map_or_else(|stop| format!("error {stop:?}"), |()| "done".to_owned())
                }
                "lead" => {
                    let ttl = Duration::from_millis(number(&mut words)?);
                    let file = of_one_word(words.next().unwrap_or_default());
                    let outcome = lead(&client, ttl, &file, &rest(&mut words)).await;
                    outcome.map_or_else(|stop| format!("error {stop:?}"), |()| "done".to_owned())
                }
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
                _ => clients.answer(verb, &rest(&mut words)).await?,
            };
            say(&answer)?;
        }
        Ok(())
    })
}

type Words<'a, 'b> = &'a mut std::str::Split<'b, char>;

async fn take(
    client: &Client,
    words: Words<'_, '_>,
    guard: &mut Option<LockGuard>,
    (wait, mode): (Wait, LockMode),
) -> Result<String, Stop> {
    let ttl = Duration::from_millis(number(words)?);
    let name = LockName::new(rest(words))?;
    let options = AcquireOptions::new().with_ttl(ttl).with_wait(wait).with_mode(mode);
    Ok(match client.acquire_with(&name, &options).await {
        Ok(new) => {
            let token = new.token().map_or_else(|error| refusal(&error), |token| format!("token {token}"));
            *guard = Some(new);
            token
        }
        Err(error) => refusal(&error),
    })
}

/// The process id, and the seconds of the boot clock.
fn identity() -> String {
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    format!("{} {}", std::process::id(), boot.tv_sec)
}

fn status(guard: Option<&LockGuard>) -> String {
    match guard {
        None => "none".to_owned(),
        Some(guard) if guard.is_held() => "held".to_owned(),
        Some(guard) => guard.loss().map_or("released".to_owned(), |loss| format!("lost {:?}", loss.cause())),
    }
}

/// Reads, waits a moment, writes: any overlap of two holders loses a count.
async fn count(client: &Client, words: Words<'_, '_>) -> Result<String, Stop> {
    let times: u64 = number(words)?;
    let file = of_one_word(words.next().unwrap_or_default());
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

fn number<N: std::str::FromStr>(words: Words<'_, '_>) -> Result<N, Stop> {
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
