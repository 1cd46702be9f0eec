//! Faults of a store that has several servers: replicas that take over, members that vote. A store with one server
//! has it as its minority and as its majority.

use super::injection::{ClientSetup, Ground, Injection, SideEffect};
use super::timing::{FaultTiming, Lasting, Time};
use crate::cannot::Cannot;
use crate::expect::optional;
use crate::stop::{Stop, Verdict, ensure};
use crate::subject::{Members, Store};
use async_trait::async_trait;
use leasehold_core::Outcome;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// What is done to some of the servers.
pub(super) enum OnServers {
    /// The primary is killed; its replica takes over, and lacks what came after it was cut off. At once where it is told to,
    /// and does not have to find out.
    FailOver { at_once: bool },
    /// The primary is stopped and replaced, and goes on.
    Supplant { at_once: bool },
    /// The member that leads is killed.
    LeaderKilled { leader: usize },
    /// The member that leads is stopped, replaced, and goes on.
    LeaderStopped { leader: usize },
    /// Some members are killed; none of them leads unless it must be.
    SomeKilled { most: bool, killed: Vec<usize> },
    /// The one server is killed, or all of them.
    AllKilled,
}

impl OnServers {
    pub(super) fn fail_over(store: &dyn Store) -> Self {
        match (store.replicas(), store.members()) {
            (Err(_), Ok(_)) => Self::LeaderKilled { leader: 0 },
            (replicas, _) => Self::FailOver { at_once: replicas.is_err() },
        }
    }

    pub(super) fn split_brain(store: &dyn Store) -> Self {
        match (store.replicas(), store.members()) {
            (Err(_), Ok(_)) => Self::LeaderStopped { leader: 0 },
            (replicas, _) => Self::Supplant { at_once: replicas.is_err() },
        }
    }

    pub(super) fn minority_down(store: &dyn Store, promised: Outcome) -> Result<Self, Cannot> {
        match (store.replicas(), store.members()) {
            // The one that is down is the primary of the name: that is the worst of them.
            (Ok(_), _) => Ok(Self::FailOver { at_once: false }),
            (_, Ok(_)) => Ok(Self::SomeKilled { most: false, killed: Vec::new() }),
            // A store that promises only `Unavailable` means its one server.
            _ if promised == Outcome::Unavailable => Ok(Self::AllKilled),
            _ => Err(Cannot::new("one server alone has no minority that it could spare")),
        }
    }

    pub(super) fn quorum_lost(store: &dyn Store) -> Self {
        match store.members() {
            Ok(_) => Self::SomeKilled { most: true, killed: Vec::new() },
            Err(_) => Self::AllKilled,
        }
    }
}

/// By how much the clocks of two primaries differ, where that can be chosen: who grants tokens by a clock of its own repeats
/// those of the other.
const APART: Duration = Duration::from_secs(5);

#[async_trait]
impl Injection for OnServers {
    fn words(&self) -> &'static str {
        match self {
            Self::FailOver { .. } => {
                "the replica is cut off before the lock is granted; then the primary is killed and the replica takes over"
            }
            Self::Supplant { .. } => {
                "the replica is cut off before the lock is granted; then the primary is stopped (SIGSTOP), replaced, and goes on"
            }
            Self::LeaderKilled { .. } => "the leader is killed (SIGKILL), and another one elected",
            Self::LeaderStopped { .. } => {
                "the leader is stopped (SIGSTOP), another one elected, and the old one goes on"
            }
            Self::SomeKilled { most: false, .. } => "as many servers are killed as can be spared",
            Self::SomeKilled { most: true, .. } => {
                "a majority of the servers is killed, and started again later"
            }
            Self::AllKilled => {
                "the store is killed (SIGKILL), and started again later with all that it had written"
            }
        }
    }

    fn timing(&self) -> FaultTiming {
        let until_replaced = Lasting::Spell(Time::new(0, 6_000));
        match self {
            Self::FailOver { at_once: true } => FaultTiming::new(Lasting::Moment).patient(),
            Self::Supplant { at_once: true } => FaultTiming::new(until_replaced).patient(),
            Self::FailOver { .. } => FaultTiming::new(Lasting::Moment).long(),
            Self::Supplant { .. } => FaultTiming::new(until_replaced).long(),
            Self::LeaderKilled { .. } | Self::LeaderStopped { .. } => {
                FaultTiming::new(Lasting::Spell(Time::new(2_500, 2_500))).long()
            }
            Self::SomeKilled { most: false, .. } => FaultTiming::new(Lasting::STATE).long(),
            Self::SomeKilled { .. } | Self::AllKilled => FaultTiming::new(Lasting::STATE),
        }
    }

    fn ends_connections(&self) -> bool {
        matches!(self, Self::FailOver { .. })
    }

    fn side_effect(&self) -> SideEffect {
        match self {
            Self::FailOver { .. } | Self::Supplant { .. } => SideEffect::Primary,
            _ => SideEffect::None,
        }
    }

    async fn prepare(&mut self, store: &dyn Store, lease: Duration) -> Result<ClientSetup, Cannot> {
        match self {
            Self::FailOver { .. } => store.replicate(Duration::ZERO).await?,
            Self::Supplant { .. } => store.replicate(APART).await?,
            _ => {}
        }
        Ok(ClientSetup::direct(store, lease))
    }

    async fn before_the_hold(&mut self, ground: &mut Ground<'_>) -> Verdict {
        if matches!(self, Self::FailOver { .. } | Self::Supplant { .. }) {
            ground.store.replicas()?.cut_off(ground.name).await?;
        }
        Ok(())
    }

    async fn inject(&mut self, ground: &mut Ground<'_>) -> Verdict {
        let store = ground.store;
        match self {
            Self::FailOver { .. } => store.replicas()?.fail_over(ground.name).await?,
            Self::Supplant { .. } => store.replicas()?.supplant(ground.name).await?,
            Self::LeaderKilled { leader } => {
                let members = store.members()?;
                *leader = members.leader_of(members.count()).await?;
                members.kill(*leader).await?;
                ensure_killed(members, &[*leader]).await?;
            }
            Self::LeaderStopped { leader } => {
                let members = store.members()?;
                *leader = members.leader_of(members.count()).await?;
                members.pause(*leader).await?;
            }
            Self::SomeKilled { most, killed } => {
                let members = store.members()?;
                let spared = members.count() / 2 + usize::from(*most);
                *killed = followers_first(members).await?.into_iter().take(spared).collect();
                for member in killed.iter() {
                    members.kill(*member).await?;
                }
                ensure_killed(members, killed).await?;
            }
            Self::AllKilled => {
                store.kill().await?;
                ensure_one_is_down(store).await?;
            }
        }
        Ok(())
    }

    async fn heal(&mut self, ground: &mut Ground<'_>) -> Verdict {
        let store = ground.store;
        match self {
            Self::FailOver { .. } => {}
            Self::Supplant { .. } => store.replicas()?.revive().await?,
            Self::LeaderKilled { leader } => store.members()?.restart(*leader).await?,
            Self::LeaderStopped { leader } => store.members()?.resume(*leader).await?,
            Self::SomeKilled { killed, .. } => {
                for member in killed {
                    store.members()?.restart(*member).await?;
                }
            }
            Self::AllKilled => store.restart(true).await?,
        }
        Ok(())
    }
}

/// A hook that kills nobody is not to pass for a fault.
async fn ensure_killed(members: &dyn Members, killed: &[usize]) -> Verdict {
    let Some((proxies, _)) = optional(members.proxied().await)? else { return Ok(()) };
    for member in killed {
        let up = serves(proxies[*member].address()).await;
        ensure!(!up, "server {member} was killed, and still takes connections");
    }
    Ok(())
}

/// The same for a whole store. One server is enough, because watchers beside the servers may stay up.
async fn ensure_one_is_down(store: &dyn Store) -> Verdict {
    let Some((proxy, _)) = optional(store.proxied(PATIENCE).await)? else { return Ok(()) };
    let mut servers: JoinSet<bool> = proxy.addresses().iter().map(|address| serves(*address)).collect();
    while let Some(up) = servers.join_next().await {
        if !up? {
            return Ok(());
        }
    }
    Err(Stop::Failed("the store was killed, and all of it still takes connections".to_owned()))
}

/// Whether there is a server behind the proxy at an address: of one that is down, the proxy ends the connection at once.
async fn serves(through: SocketAddr) -> bool {
    let Ok(mut connection) = TcpStream::connect(through).await else { return false };
    // A server that is up greets, or waits for a greeting.
    let said = tokio::time::timeout(PATIENCE, connection.read(&mut [0])).await;
    !matches!(said, Ok(Ok(0) | Err(_)))
}

/// By then the proxy has been refused, on any machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// All members, the leader last.
async fn followers_first(members: &dyn Members) -> Result<Vec<usize>, Cannot> {
    let leader = members.leader_of(members.count()).await?;
    let followers = (0..members.count()).filter(|member| *member != leader);
    Ok(followers.chain([leader]).collect())
}
