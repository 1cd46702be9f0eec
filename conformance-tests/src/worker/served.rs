//! The other side: a worker process, which serves the case that has started it.

use super::ENVIRONMENT;
use super::request::Request;
use crate::expect::{Client, ClientExt, first_use};
use crate::history::{RecordedPermits, Recorder};
use crate::running_client::{Role, RunningClient};
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use leasehold_core::{
    AcquireOptions, DistributedLockExt, Error, ErrorKind, Lease, LockGuard, LockName, Wait,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

/// The subject and the address that this process was told, if it was started as a worker of the suite. For a `main` whose
/// subjects are made of what it is called with.
pub fn worker_order() -> Option<(String, String)> {
    let order = std::env::var(ENVIRONMENT).ok()?;
    order.split_once('\n').map(|(subject, address)| (subject.to_owned(), address.to_owned()))
}

/// If this process is a worker of the suite, serves until its requests end. For a `main` of your own that runs cases
/// with [`run_case`](crate::run_case): call it before anything else.
pub fn serve_as_worker(subjects: &[Arc<dyn Subject>]) -> Option<ExitCode> {
    std::env::var_os(ENVIRONMENT)?;
    let outcome = worker_order()
        .ok_or_else(|| Stop::Failed("an order without an address".to_owned()))
        .and_then(|(name, address)| serve(subjects, &name, &address));
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            let _ = writeln!(std::io::stderr(), "worker: {stop:?}");
            ExitCode::FAILURE
        }
    })
}

fn serve(subjects: &[Arc<dyn Subject>], name: &str, address: &str) -> Verdict {
    let subject = subjects.iter().find(|subject| subject.name() == name);
    let subject = subject.ok_or_else(|| Stop::Failed(format!("no subject {name:?} in this program")))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let client = subject.connect(address).await.map_err(Stop::from);
        say(&client.as_ref().map_or_else(|stop| format!("error {stop:?}"), |_| "ready".to_owned()))?;
        let mut served = Served::new(&**subject, address, client?);
        let mut requests = BufReader::new(tokio::io::stdin()).lines();
        while let Some(request) = requests.next_line().await? {
            let request = serde_json::from_str(&request).map_err(std::io::Error::from)?;
            let answer = served.answer(request).await;
            say(&answer.unwrap_or_else(|stop| format!("error {stop:?}")))?;
        }
        Ok(())
    })
}

/// What a worker has at hand between two requests.
struct Served<'a> {
    subject: &'a dyn Subject,
    address: &'a str,
    client: Client,
    guard: Option<LockGuard>,
    running: Vec<RunningClient>,
    /// A client that has connections, and no work yet.
    ready: Option<Client>,
    /// The file descriptors that this process may have, if it may have no more for now.
    descriptors: Option<Rlimit>,
}

/// How long a first use may take until it succeeds.
const FIRST_USE: Duration = Duration::from_secs(10);

impl<'a> Served<'a> {
    fn new(subject: &'a dyn Subject, address: &'a str, client: Client) -> Self {
        Self { subject, address, client, guard: None, running: Vec::new(), ready: None, descriptors: None }
    }

    async fn answer(&mut self, request: Request) -> Result<String, Stop> {
        let client = &self.client;
        match request {
            Request::Acquire(name, ttl, mode, waits) => {
                let wait = if waits { Wait::Forever } else { Wait::No };
                let options = AcquireOptions::new().with_ttl(ttl).with_wait(wait).with_mode(mode);
                let acquired = client.acquire_with(&name, &options).await;
                return self.keep(acquired);
            }
            Request::Permit(name, ttl, limit) => {
                let permits = self.subject.kinds().semaphore(&**client, &name, limit)?;
                return self.keep(permits.acquire(&AcquireOptions::new().with_ttl(ttl)).await);
            }
            Request::Status => return Ok(self.status()),
            Request::Release => {
                let Some(guard) = self.guard.take() else { return Ok("none".to_owned()) };
                guard.release().await?;
                return Ok("released".to_owned());
            }
            Request::Look(name) => {
                let admin = client.looking()?;
                let _ = (admin.inspect(&name).await?, admin.list(name.as_str()).await?);
                admin.waiters(&name).await?;
            }
            Request::Identity => {
                let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                return Ok(format!("{} {}", std::process::id(), boot.tv_sec));
            }
            Request::Occupy(name, limit, times, directory) => {
                let permits = self.subject.kinds().semaphore(&**client, &name, limit)?;
                let recorder = Recorder::create(&directory)?;
                let permits = RecordedPermits { permits, name, limit, recorder };
                occupy(&permits, times, &directory, &AcquireOptions::new()).await?;
            }
            Request::Lead(name, ttl, file) => lead(client, ttl, &file, &name).await?,
            Request::History(workload) => workload.run(Arc::clone(client)).await?,
            Request::Start(role, workload) => {
                let client = match self.ready.take() {
                    Some(ready) => ready,
                    None => self.subject.connect(self.address).await?,
                };
                self.running.push(RunningClient::begin(role, &workload, client)?);
            }
            Request::Held => {
                let first = self.running.first_mut();
                let first = first.ok_or_else(|| Stop::Failed("no client was started".to_owned()))?;
                return Ok(format!("token {}", first.held().await?));
            }
            Request::Answered(at_most) => {
                tokio::time::timeout(at_most, self.all_answered()).await.unwrap_or(Ok(()))?;
            }
            Request::Leave(role) => self.leave(role).await?,
            Request::WarmUp(name) => {
                let client = self.subject.connect(self.address).await?;
                first_use(&client, &name, &AcquireOptions::new(), FIRST_USE).await?;
                self.ready = Some(client);
            }
            Request::Starve(time) => {
                // The runtime has one thread for its tasks; this one serves requests.
                tokio::spawn(async move { std::thread::sleep(time) });
            }
            Request::MayOpenFiles(may) => self.may_open_files(may)?,
            Request::ForceRelease(name) => drop(client.looking()?.force_release(&name, None).await?),
        }
        Ok("done".to_owned())
    }

    /// Waits until all clients at work but those that wait have had an answer.
    async fn all_answered(&mut self) -> Verdict {
        for client in self.running.iter_mut().filter(|client| client.role() != Role::Waiter) {
            client.held().await?;
        }
        Ok(())
    }

    async fn leave(&mut self, role: Option<Role>) -> Verdict {
        let leaves = |one: &mut RunningClient| role.is_none_or(|role| role == one.role());
        let leaving: Vec<RunningClient> = self.running.extract_if(.., leaves).collect();
        leaving.iter().for_each(RunningClient::tell);
        for client in leaving {
            client.end().await?;
        }
        Ok(())
    }

    /// By the limit alone: what is open stays open, whatever its number.
    fn may_open_files(&mut self, may: bool) -> std::io::Result<()> {
        let limit = match may {
            true => self.descriptors.take(),
            false => {
                let before = getrlimit(Resource::Nofile);
                self.descriptors = Some(before);
                Some(Rlimit { current: Some(0), ..before })
            }
        };
        Ok(limit.map_or(Ok(()), |limit| setrlimit(Resource::Nofile, limit))?)
    }

    /// The answer to what was acquired: its token, or that it is busy.
    fn keep(&mut self, acquired: Result<LockGuard, Error>) -> Result<String, Stop> {
        if acquired.as_ref().is_err_and(|error| error.kind() == ErrorKind::Busy) {
            return Ok("busy".to_owned());
        }
        let guard = self.guard.insert(acquired?);
        Ok(format!("token {}", guard.token()?))
    }

    fn status(&self) -> String {
        match &self.guard {
            None => "none".to_owned(),
            Some(guard) if guard.is_held() => "held".to_owned(),
            Some(guard) => {
                guard.loss().map_or("released".to_owned(), |loss| format!("lost {:?}", loss.cause()))
            }
        }
    }
}

/// Takes permits, so many times, and each time sees in the directory how many others hold one.
///
/// A holder has a file in a folder of the directory for as long as it holds. It looks after it has made its own, so of any set of holders
/// that overlap the last one sees all.
pub(crate) async fn occupy(
    permits: &RecordedPermits,
    times: u64,
    directory: &Path,
    options: &AcquireOptions,
) -> Verdict {
    let (directory, limit) = (directory.join("holders"), permits.limit);
    fs::create_dir_all(&directory)?;
    for _ in 0..times {
        let guard = permits.acquire(options).await?;
        let mine = directory.join(format!("{:016x}", fastrand::u64(..)));
        fs::write(&mine, "")?;
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..2000))).await;
        let holders = fs::read_dir(&directory)?.count();
        fs::remove_file(&mine)?;
        if holders > limit as usize {
            return Err(Stop::Failed(format!("{holders} hold a permit, of {limit}")));
        }
        guard.observe()?;
        guard.release().await?;
    }
    Ok(())
}

/// Leads for ever; writes the term into a file each few milliseconds while it does.
async fn lead(client: &Client, ttl: Duration, file: &Path, name: &LockName) -> Verdict {
    let election = client.elect(name)?.with_options(AcquireOptions::new().with_ttl(ttl));
    let work = |leader: Lease| async move {
        let term = leader.token().map_err(Stop::from)?;
        loop {
            fs::write(file, format!("{term} {:016x}", fastrand::u64(..)))?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    election.lead(work).await?
}

fn say(answer: &str) -> Verdict {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{answer}")?;
    Ok(out.flush()?)
}
