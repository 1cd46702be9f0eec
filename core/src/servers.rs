//! Which server answers a backend, so that the observers of its clients hear when it is another one.

use crate::Event;
use crate::observer::Events;
use crate::sync::{Mutex, locked};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The most servers that are remembered of one address.
const MOST_SERVERS: usize = 16;

/// The servers that answered a backend, by what each says it is, such as an id that it keeps. A backend
/// [notes](Self::note) one for each new connection, and shows them by [`LockBackend::servers`](crate::LockBackend::servers).
#[derive(Debug, Default)]
pub struct KnownServers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    clients: Vec<Weak<Events>>,
    by_address: HashMap<String, Vec<String>>,
}

impl KnownServers {
    /// Notes what the server that answers at an address says it is. If others have answered there before, and this one never, the
    /// observers get [`Event::ServerChanged`].
    pub fn note(&self, address: &str, server: &str) {
        let (before, clients) = {
            let mut state = locked(&self.0);
            let seen = state.by_address.entry(address.to_owned()).or_default();
            if seen.iter().any(|it| it == server) {
                return;
            }
            let before = seen.last().cloned();
            if seen.len() == MOST_SERVERS {
                seen.remove(0);
            }
            seen.push(server.to_owned());
            (before, state.clients.clone())
        };
        let Some(before) = before else { return };
        for events in clients.iter().filter_map(Weak::upgrade) {
            events.tell(&Event::ServerChanged { address, before: &before, now: server });
        }
    }

    /// Lets a client hear of changes, for as long as it lives.
    pub(crate) fn tell(&self, events: &Arc<Events>) {
        let clients = &mut locked(&self.0).clients;
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(events));
    }
}
