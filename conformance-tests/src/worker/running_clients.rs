//! The clients of a run in a worker process: any number at once, each with connections of its own, while the process can
//! be starved or asked.

use super::request::{ClientRequest, Request};
use super::{Worker, token};
use crate::expect::{Client, first_use};
use crate::running_client::{Role, RunningClient};
use crate::stop::{Stop, Verdict};
use crate::subject::Subject;
use leasehold_core::AcquireOptions;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

impl Worker {
    /// Asks something of its clients, and waits until it is done.
    pub(crate) async fn order(&mut self, request: ClientRequest) -> Verdict {
        self.begin(request).await?;
        self.done().await
    }

    /// Asks something of its clients, and does not wait for the end of it.
    pub(crate) async fn begin(&mut self, request: ClientRequest) -> Verdict {
        self.send(&Request::Clients(request)).await
    }

    /// Waits until the first of its clients has had the lock; its token.
    pub(crate) async fn held(&mut self) -> Result<u64, Stop> {
        token(&self.ask(&Request::Clients(ClientRequest::Held)).await?)
    }

    /// True unless it was killed, or has ended.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// True if it was killed; one that has ended by itself was not.
    pub(crate) fn was_killed(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if status.signal() == Some(Signal::KILL.as_raw()))
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

    pub(super) async fn answer(&mut self, request: ClientRequest) -> Result<String, Stop> {
        match request {
            ClientRequest::Start(role, workload) => {
                let client = match self.ready.take() {
                    Some(ready) => ready,
                    None => self.subject.connect(self.address).await?,
                };
                self.running.push(RunningClient::begin(role, &workload, client)?);
            }
            ClientRequest::Held => {
                let first = self.running.first_mut();
                let first = first.ok_or_else(|| Stop::Failed("no client was started".to_owned()))?;
                return Ok(format!("token {}", first.held().await?));
            }
            ClientRequest::Answered(at_most) => {
                let asking = self.running.iter_mut().filter(|client| client.role() != Role::Waiter);
                let all = async {
                    for client in asking {
                        client.held().await?;
                    }
                    Ok::<_, Stop>(())
                };
                tokio::time::timeout(at_most, all).await.unwrap_or(Ok(()))?;
            }
            ClientRequest::Leave(role) => {
                let leaving = |one: &mut RunningClient| role.is_none_or(|role| role == one.role());
                let leaving: Vec<RunningClient> = self.running.extract_if(.., leaving).collect();
                leaving.iter().for_each(RunningClient::tell);
                for client in leaving {
                    client.end().await?;
                }
            }
            ClientRequest::WarmUp(name) => {
                let client = self.subject.connect(self.address).await?;
                first_use(&client, &name, &AcquireOptions::new(), FIRST_USE).await?;
                self.ready = Some(client);
            }
            ClientRequest::Starve(time) => {
                // The runtime has one thread for its tasks; this one serves requests.
                tokio::spawn(async move { std::thread::sleep(time) });
            }
            ClientRequest::MayOpenFiles(may) => self.may_open_files(may)?,
            ClientRequest::ForceRelease(name) => {
                let client = self.subject.connect(self.address).await?;
                let admin = client.admin().ok_or_else(|| Stop::Failed("no administration".to_owned()))?;
                admin.force_release(&name, None).await?;
            }
        }
        Ok("done".to_owned())
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
