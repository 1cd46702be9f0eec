//! The clients of a run in a worker process: any number at once, each with connections of its own, while the process can
//! be starved or asked.

use super::{Worker, token};
use crate::case::{Stop, Verdict};
use crate::context::Client;
use crate::running_client::{Role, RunningClient};
use crate::subject::Subject;
use crate::workload::Workload;
use leasehold_core::{AcquireOptions, DistributedLockExt, ErrorKind, LockName};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

impl Worker {
    /// Lets a client begin its work.
    pub(crate) async fn start_client(&mut self, role: Role, workload: &Workload) -> Verdict {
        self.send(&format!("shift {role} {workload}")).await?;
        self.expect("begun").await
    }

    /// Lets its first client make its connections, and whatever else comes with a first use of a lock.
    pub(crate) async fn warm_up(&mut self, name: &LockName) -> Verdict {
        self.send(&format!("warm-up {name}")).await?;
        self.done().await
    }

    /// Waits until the first of its clients has had the lock; its token.
    pub(crate) async fn held(&mut self) -> Result<u64, Stop> {
        token(&self.ask("held").await?)
    }

    /// Waits until all of its clients but those that wait have had an answer, or until that takes too long.
    pub(crate) async fn answered(&mut self, at_most: Duration) -> Verdict {
        self.send(&format!("answered {}", at_most.as_millis())).await?;
        self.done().await
    }

    /// Lets its clients of this role give back what they have, and end; all of them, if none is named.
    pub(crate) async fn leave(&mut self, role: Option<Role>) -> Verdict {
        self.begin_leave(role).await?;
        self.done().await
    }

    /// The same, without waiting for it: who wants the lock meanwhile may have to wait for somebody else's end.
    pub(crate) async fn begin_leave(&mut self, role: Option<Role>) -> Verdict {
        self.send(&format!("leave {}", role.map_or_else(String::new, |role| role.to_string()))).await
    }

    /// True unless it was killed, or has ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// True if it was killed; one that has ended by itself was not.
    pub(crate) fn was_killed(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if status.signal() == Some(Signal::KILL.as_raw()))
    }

    /// Blocks every thread on which its clients run.
    pub(crate) async fn starve(&mut self, time: Duration) -> Verdict {
        self.send(&format!("starve {}", time.as_millis())).await?;
        self.expect("starving").await
    }

    /// Lets it have no more file descriptors than it has, not even in place of one that it closes; or as many again as
    /// it had.
    pub(crate) async fn may_open_files(&mut self, may: bool) -> Verdict {
        self.send(&format!("open {may}")).await?;
        self.done().await
    }

    /// Ends a lock by the backend's own administration: where no other process reaches the store.
    pub(crate) async fn force_release(&mut self, name: &LockName) -> Verdict {
        self.send(&format!("free {name}")).await?;
        self.done().await
    }
}

/// The side of the worker process.
pub(super) struct RunningClients<'a> {
    subject: &'a dyn Subject,
    address: &'a str,
    running: Vec<RunningClient>,
    /// A client that has connections, and no work yet.
    ready: Option<Client>,
    /// The file descriptors that this process may have, if it may have no more for now.
    descriptors: Option<Rlimit>,
}

impl<'a> RunningClients<'a> {
    pub(super) fn new(subject: &'a dyn Subject, address: &'a str) -> Self {
        Self { subject, address, running: Vec::new(), ready: None, descriptors: None }
    }

    pub(super) async fn answer(&mut self, verb: &str, rest: &str) -> Result<String, Stop> {
        Ok(match verb {
            "shift" => {
                let (role, workload) = rest.split_once(' ').unwrap_or_default();
                let client = match self.ready.take() {
                    Some(ready) => ready,
                    None => self.subject.connect(self.address).await?,
                };
                self.running.push(RunningClient::begin(role.parse()?, &workload.parse()?, client)?);
                "begun".to_owned()
            }
            "held" => match self.running.first_mut() {
                Some(first) => format!("token {}", first.held().await?),
                None => "nobody".to_owned(),
            },
            "answered" => {
                let time = Duration::from_millis(rest.parse().unwrap_or_default());
                let asking = self.running.iter_mut().filter(|client| client.role() != Role::Waiter);
                let all = async {
                    for client in asking {
                        client.held().await?;
                    }
                    Ok::<_, Stop>(())
                };
                tokio::time::timeout(time, all).await.unwrap_or(Ok(()))?;
                "done".to_owned()
            }
            "leave" => {
                let leaving = |one: &mut RunningClient| rest.is_empty() || one.role().to_string() == rest;
                let leaving: Vec<RunningClient> = self.running.extract_if(.., leaving).collect();
                leaving.iter().for_each(RunningClient::tell);
                for client in leaving {
                    client.end().await?;
                }
                "done".to_owned()
            }
            "warm-up" => {
                let client = self.subject.connect(self.address).await?;
                warm_up(&client, &LockName::new(rest)?).await?;
                self.ready = Some(client);
                "done".to_owned()
            }
            "starve" => {
                let time = Duration::from_millis(rest.parse().unwrap_or_default());
                // The runtime has one thread for its tasks; this one serves requests.
                tokio::spawn(async move { std::thread::sleep(time) });
                "starving".to_owned()
            }
            "open" => {
                self.may_open_files(rest == "true")?;
                "done".to_owned()
            }
            "free" => {
                let client = self.subject.connect(self.address).await?;
                let admin = client.admin().ok_or_else(|| Stop::Failed("no administration".to_owned()))?;
                admin.force_release(&LockName::new(rest)?, None).await?;
                "done".to_owned()
            }
            _ => format!("unknown {verb}"),
        })
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
}

/// How long a first use may take until it succeeds.
const FIRST_USE: Duration = Duration::from_secs(10);

/// A server that has just been started may take longer for its first client than one behind a proxy waits.
async fn warm_up(client: &Client, name: &LockName) -> Verdict {
    let start = Instant::now();
    loop {
        let used = async { client.acquire_with(name, &AcquireOptions::new()).await?.release().await };
        match used.await {
            Err(error) if error.kind() != ErrorKind::Invalid && start.elapsed() < FIRST_USE => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            used => return Ok(used?),
        }
    }
}
