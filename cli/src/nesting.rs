//! Locks within locks: a command that runs under a lock takes another, and must not wait for itself.

use crate::lock_request::LockRequest;
use leasehold::admin::LockStatus;
use leasehold::{Error, ErrorKind, FencingToken, LockName};
use leasehold_console::{Failure, OpenStore};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::fmt;

const VARIABLE: &str = "LEASEHOLD_STACK";

/// What would end an entry too early.
const RESERVED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b',').add(b':');

/// The locks that this process runs under, from the outermost to the innermost. As text: `STORE:TOKEN:NAME`, with commas
/// between; `STORE` is a figure that tells stores apart and names none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stack(Vec<NestedLock>);

/// A lock that a command above holds, or has held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NestedLock {
    store: u64,
    pub(crate) token: u64,
    name: String,
}

impl Stack {
    /// What the environment says. An entry that cannot be read is somebody else's.
    pub(crate) fn of_this_process() -> Self {
        Self::parse(&std::env::var(VARIABLE).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        Self(text.split(',').filter_map(NestedLock::parse).collect())
    }

    /// With these locks more.
    pub(crate) fn with(mut self, store: &OpenStore, tokens: &[(LockName, FencingToken)]) -> Self {
        let store = fingerprint(&store.identity());
        let entry = |(name, token): &(LockName, FencingToken)| NestedLock {
            store,
            token: token.get(),
            name: name.to_string(),
        };
        self.0.extend(tokens.iter().map(entry));
        self
    }

    /// The innermost lock of this name in this store, or else in another; and whether it is in this one.
    pub(crate) fn innermost(&self, store: &OpenStore, name: &LockName) -> Option<(&NestedLock, bool)> {
        let store = fingerprint(&store.identity());
        let of_name = || self.0.iter().filter(|entry| entry.name == name.as_str());
        let here = of_name().rfind(|entry| entry.store == store);
        here.or_else(|| of_name().next_back()).map(|entry| (entry, entry.store == store))
    }

    /// True if a command above this one holds a lock in another store.
    pub(crate) fn is_in_another_store(&self, store: &OpenStore) -> bool {
        let identity = fingerprint(&store.identity());
        self.0.iter().any(|entry| entry.store != identity)
    }

    /// Refuses a lock that commands above this one hold, or a permit if they hold all: it would be waited for until the end of time.
    ///
    /// The variable alone proves nothing: a daemon that was started under a lock has it for ever. The store is asked.
    pub(crate) async fn check(&self, store: &OpenStore, request: &LockRequest) -> Result<(), Failure> {
        let (above, mut free) = match request {
            LockRequest::Permit(name, permits) => {
                (self.in_store(store, |above| above.semaphore() == Some(name.as_str())), *permits)
            }
            LockRequest::Lock(..) | LockRequest::Set(_) => {
                (self.in_store(store, |above| request.names().contains(above)), 1)
            }
        };
        for (name, entry) in above {
            free -= u32::from(entry.find_hold(store, &name).await?.is_some());
            if free == 0 {
                let what = match request {
                    LockRequest::Permit(..) => format!("every permit of {request}"),
                    LockRequest::Lock(..) | LockRequest::Set(_) => format!("{name:?}"),
                };
                let message = format!(
                    "{what} is held by a command that this one runs under: you would deadlock with yourself"
                );
                let help = "take it once, on the outside; or run the inner command with --reentrant";
                return Err(Error::new(ErrorKind::Invalid, message).with_help(help).into());
            }
        }
        Ok(())
    }

    /// The locks of these names in this store.
    fn in_store(
        &self,
        store: &OpenStore,
        is_meant: impl Fn(&LockName) -> bool,
    ) -> Vec<(LockName, &NestedLock)> {
        let store = fingerprint(&store.identity());
        let entries = self.0.iter().filter(|entry| entry.store == store);
        let named = entries.filter_map(|entry| Some((LockName::from_store(&entry.name).ok()?, entry)));
        named.filter(|(name, _)| is_meant(name)).collect()
    }
}

impl NestedLock {
    /// The hold that this was, if it lasts. A released lock that is kept from others for a while ends by itself, and can be
    /// waited for.
    pub(crate) async fn find_hold(
        &self,
        store: &OpenStore,
        name: &LockName,
    ) -> Result<Option<LockStatus>, Failure> {
        let token = Some(FencingToken::new(self.token));
        let holds = store.admin()?.inspect(name).await?;
        Ok(holds.into_iter().find(|hold| !hold.is_released() && hold.token == token))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let store = u64::from_str_radix(parts.next()?, 16).ok()?;
        let token = parts.next()?.parse().ok()?;
        let name = percent_decode_str(parts.next()?).decode_utf8().ok()?.into_owned();
        Some(Self { store, token, name })
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let name = utf8_percent_encode(&entry.name, RESERVED);
            write!(f, "{comma}{:016x}:{}:{name}", entry.store, entry.token)?;
        }
        Ok(())
    }
}

/// FNV-1a: the same in every version of this program, as the standard library's hash is not.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_of_any_names_is_parsed_as_it_was_printed() {
        let entry =
            |name: &str| NestedLock { store: fingerprint("redis://h"), token: 7, name: name.to_owned() };
        let stack = Stack(vec![entry("a"), entry("x:y,z %2C\u{e9}"), entry("-n")]);
        assert_eq!(Stack::parse(&stack.to_string()), stack);
        assert_eq!(Stack::parse(""), Stack::default());
        assert_eq!(Stack::parse("nonsense,:,1:2"), Stack::default());
    }
}
