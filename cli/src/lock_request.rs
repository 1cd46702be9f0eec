//! What a call acquires: a lock, alone or beside other readers, a permit of a semaphore, or the locks of several names.

use crate::args::{KindArgs, lock_name};
use leasehold::admin::{LockStatus, Waiter};
use leasehold::semantics::Sharing;
use leasehold::{
    AcquireOptions, DistributedLock, DistributedLockExt, Error, FencingToken, HolderInfo, LockGuard,
    LockMode, LockName, LockSetGuard, Result,
};
use leasehold_console::OpenStore;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;

/// What is to be acquired.
#[derive(Clone, Debug)]
pub(crate) enum LockRequest {
    Lock(LockName, LockMode),
    Permit(LockName, u32),
    /// In the order of the command line.
    Set(Vec<LockName>),
}

/// What is held: one guard, and the token of each lock.
#[derive(Debug)]
pub(crate) struct HeldLocks {
    pub(crate) guard: LockGuard,
    /// In the order of the command line. The lock of a permit is its slot.
    pub(crate) tokens: Vec<(LockName, FencingToken)>,
}

impl LockRequest {
    /// As the command line has it.
    pub(crate) fn read(words: &[OsString], kind: KindArgs) -> Result<Self> {
        let mut names = words.iter().map(|word| lock_name(word)).collect::<Result<Vec<_>>>()?;
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
            return Err(Error::invalid("lock name", format_args!("{twice:?} twice"), "name each lock once"));
        }
        let limit = LockSetGuard::MAX_NAMES;
        if names.len() > limit {
            let problem = format_args!("{} names, limit {limit}", names.len());
            return Err(Error::invalid("set of locks", problem, "take one lock for all of them"));
        }
        let option = if kind.shared { "--shared" } else { "--permits" };
        if names.len() > 1 && (kind.shared || kind.permits.is_some()) {
            let fix = "name one lock, or leave the option out: several names are held alone";
            return Err(Error::invalid(option, "with several names", fix));
        }
        Ok(if names.len() == 1 { Self::of(names.remove(0), kind) } else { Self::Set(names) })
    }

    pub(crate) fn of(name: LockName, kind: KindArgs) -> Self {
        match (kind.permits, kind.shared) {
            (Some(permits), _) => Self::Permit(name, permits),
            (None, true) => Self::Lock(name, LockMode::Shared),
            (None, false) => Self::Lock(name, LockMode::Exclusive),
        }
    }

    /// Refuses, before any request, what the store does not have.
    pub(crate) fn check(&self, store: &OpenStore) -> Result<()> {
        let semantics = store.locks.semantics();
        match self {
            Self::Lock(_, LockMode::Shared) if semantics.sharing == Sharing::Unsupported => {
                let problem = format_args!("{} ({}) has no shared locks", semantics.backend, semantics.mode);
                Err(Error::invalid("--shared", problem, "leave it out, or use a store that has them"))
            }
            Self::Permit(name, permits) => store.locks.semaphore(name, *permits).map(drop),
            Self::Lock(..) | Self::Set(_) => Ok(()),
        }
    }

    /// Acquires it, with the mode that it says.
    pub(crate) async fn acquire(
        &self,
        locks: &dyn DistributedLock,
        options: &AcquireOptions,
    ) -> Result<HeldLocks> {
        match self {
            Self::Lock(name, mode) => {
                let guard = locks.acquire_named(name, &options.clone().with_mode(*mode)).await?;
                HeldLocks::of_one(guard)
            }
            Self::Permit(name, permits) => {
                HeldLocks::of_one(locks.semaphore(name, *permits)?.acquire_with(options).await?)
            }
            Self::Set(names) => {
                let set = locks.acquire_all_with(names, options).await?;
                let token = |name: &LockName| Ok((name.clone(), set.token(name.as_str())?));
                let tokens = names.iter().map(token).collect::<Result<_>>()?;
                Ok(HeldLocks { guard: set.into(), tokens })
            }
        }
    }

    /// The names on the command line.
    pub(crate) fn names(&self) -> &[LockName] {
        match self {
            Self::Lock(name, _) | Self::Permit(name, _) => std::slice::from_ref(name),
            Self::Set(names) => names,
        }
    }

    /// What keeps it from others, as the store tells; nothing if it is free.
    pub(crate) async fn blockers(&self, store: &OpenStore) -> Result<Vec<LockStatus>> {
        let mut holds = self.holders(store).await?;
        match self {
            Self::Permit(_, permits) if holds.len() < *permits as usize => holds.clear(),
            Self::Lock(_, LockMode::Shared) => holds.retain(|hold| !hold.mode.is_shared()),
            _ => {}
        }
        Ok(holds)
    }

    /// What of it somebody holds, as the store tells: the holders of all slots, or of the first name that is held; of several names without
    /// the holds of this process, because a set that was busy is giving back what it was granted beside that. By host name and process id,
    /// which two containers may share.
    pub(crate) async fn holders(&self, store: &OpenStore) -> Result<Vec<LockStatus>> {
        let admin = store.admin()?;
        if let Self::Permit(name, permits) = self {
            // A list may show what a replica knows; the question for one lock fails there.
            admin.inspect(name).await?;
            let in_use = permits_of(store, name).await?;
            return Ok(in_use.into_iter().filter(|permit| permit.name.slot() < Some(*permits)).collect());
        }
        let this = matches!(self, Self::Set(_)).then(HolderInfo::this_process);
        let is_of_this = |hold: &LockStatus| {
            this.as_ref().is_some_and(|this| (&this.host, this.pid) == (&hold.holder.host, hold.holder.pid))
        };
        for name in self.names() {
            let mut holds = admin.inspect(name).await?;
            holds.retain(|hold| !is_of_this(hold));
            if !holds.is_empty() {
                return Ok(holds);
            }
        }
        Ok(Vec::new())
    }

    /// The place of this process among the waiters behind this holder, from 1 on; `None` where the store does not know its waiters.
    pub(crate) async fn place(&self, store: &OpenStore, holder: &LockStatus) -> Result<Option<usize>> {
        let waiters = match self {
            Self::Permit(name, _) => permit_waiters(store, name).await?,
            Self::Lock(..) | Self::Set(_) => store.admin()?.waiters(&holder.name).await?,
        };
        let this = HolderInfo::this_process();
        let is_this = |waiter: &Waiter| (&waiter.holder.host, waiter.holder.pid) == (&this.host, this.pid);
        Ok(waiters.iter().position(is_this).map(|before| before + 1))
    }
}

/// The waiters for a permit. They stand at the gate, and the one who has the gate is the first.
pub(crate) async fn permit_waiters(store: &OpenStore, semaphore: &LockName) -> Result<Vec<Waiter>> {
    let (admin, gate) = (store.admin()?, LockName::from_store(format!("{semaphore}::gate"))?);
    let first = admin.inspect(&gate).await?.into_iter().map(|hold| Waiter::new(hold.owner, hold.holder));
    Ok(first.chain(admin.waiters(&gate).await?).collect())
}

/// The permits of a semaphore that are in use, by their slots.
pub(crate) async fn permits_of(store: &OpenStore, name: &LockName) -> Result<Vec<LockStatus>> {
    let (permits, unseen) = reachable_permits_of(store, name).await?;
    unseen.into_iter().next().map_or(Ok(permits), Err)
}

/// The same from the servers that answer, and why others do not.
pub(crate) async fn reachable_permits_of(
    store: &OpenStore,
    name: &LockName,
) -> Result<(Vec<LockStatus>, Vec<Error>)> {
    let (mut permits, unseen) = store.admin()?.list_reachable(&format!("{name}::slot:")).await?;
    permits.retain(|permit| permit.name.slot().is_some() && permit.name.semaphore() == Some(name.as_str()));
    permits.sort_by_key(|permit| permit.name.slot());
    Ok((permits, unseen))
}

impl HeldLocks {
    pub(crate) fn of_one(guard: LockGuard) -> Result<Self> {
        let tokens = vec![(guard.name().clone(), guard.token()?)];
        Ok(Self { guard, tokens })
    }
}

/// The names in quotes, with commas between.
impl fmt::Display for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.names().iter().map(|name| format!("{name:?}")).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str], shared: bool, permits: Option<u32>) -> Result<LockRequest> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        LockRequest::read(&words, KindArgs { shared, permits })
    }

    #[test]
    fn names_and_options_say_the_kind_of_lock() {
        assert!(matches!(read(&["a"], false, None), Ok(LockRequest::Lock(_, LockMode::Exclusive))));
        assert!(matches!(read(&["a"], true, None), Ok(LockRequest::Lock(_, LockMode::Shared))));
        assert!(matches!(read(&["a"], false, Some(3)), Ok(LockRequest::Permit(_, 3))));
        let set = read(&["b", "a"], false, None).unwrap();
        assert_eq!(set.to_string(), "\"b\", \"a\"");
    }

    #[test]
    fn set_of_bad_names_or_of_readers_is_refused() {
        let many: Vec<String> = (0..65).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let cases = [
            (read(&["a", "b", "a"], false, None), "invalid lock name: \"a\" twice"),
            (read(&["a", "b"], true, None), "invalid --shared: with several names"),
            (read(&["a", "b"], false, Some(2)), "invalid --permits: with several names"),
            (read(&many, false, None), "invalid set of locks: 65 names, limit 64"),
            (read(&["a", ""], false, None), "invalid lock name: it is empty"),
        ];
        for (read, message) in cases {
            let error = read.unwrap_err();
            assert!(error.to_string() == message && error.help().is_some(), "{error:?}");
        }
    }
}
