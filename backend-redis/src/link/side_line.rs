//! Messages in the older protocol. It leaves no room for them between replies, so they come on a connection of their own.

use super::stream;
use crate::mailbox::Mailbox;
use crate::target::Target;
use futures_util::StreamExt;
use leasehold_core::Result;
use leasehold_store_url::Secret;
use redis::aio::{PubSub, PubSubSink};
use redis::{ProtocolVersion, RedisConnectionInfo, Value};
use secrecy::ExposeSecret;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// After this long without a message it is asked for a sign of life: each hand-over of which no word comes through waits
/// for a heartbeat.
const SILENCE: Duration = Duration::from_secs(5);
/// The pause after it could not be had. Waiters ask meanwhile, as they do where nothing can be heard.
pub(super) const PAUSE: Duration = Duration::from_secs(5);

/// A connection for messages, beside one for requests, and no longer than that.
#[derive(Debug, Default)]
pub(super) struct SideLine {
    hears: Arc<AtomicBool>,
    listener: Mutex<Option<AbortHandle>>,
    /// Whoever has it connects, if that time has come; the others wait for it.
    dialling: tokio::sync::Mutex<Option<Instant>>,
}

impl SideLine {
    /// True if messages arrive.
    pub(super) fn is_open(&self) -> bool {
        self.hears.load(Ordering::SeqCst)
    }

    /// Connects and subscribes, if that is not done. True if messages arrive from now on.
    pub(super) async fn open(&self, target: &Target, mailbox: &Arc<Mailbox>, channel: &str) -> bool {
        let mut not_before = self.dialling.lock().await;
        if self.is_open() {
            return true;
        }
        if not_before.is_some_and(|moment| Instant::now() < moment) {
            return false;
        }
        let Some(messages) = subscribed(target, channel).await else {
            *not_before = Some(Instant::now() + PAUSE);
            return false;
        };
        self.begin(messages, Arc::clone(mailbox), target.timeouts.request);
        true
    }

    /// Ends it now.
    pub(super) fn end(&self) {
        if let Some(listener) = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take() {
            listener.abort();
        }
    }

    fn begin(&self, messages: PubSub, mailbox: Arc<Mailbox>, patience: Duration) {
        self.hears.store(true, Ordering::SeqCst);
        let end = End { hears: Arc::clone(&self.hears), mailbox };
        let listener = tokio::spawn(async move { listen(messages, &end.mailbox, patience).await });
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener.abort_handle());
    }
}

impl Drop for SideLine {
    fn drop(&mut self) {
        self.end();
    }
}

/// Says that nothing is heard any more, when it is dropped: the listener has ended, was aborted, or its runtime was.
struct End {
    hears: Arc<AtomicBool>,
    mailbox: Arc<Mailbox>,
}

impl Drop for End {
    fn drop(&mut self) {
        // In this order: who is woken asks as one who hears nothing, and not as one who is told.
        self.hears.store(false, Ordering::SeqCst);
        self.mailbox.wake_all();
    }
}

/// Why it failed is of no use to anybody: the connection for requests, which was made just so, has not.
async fn subscribed(target: &Target, channel: &str) -> Option<PubSub> {
    let deadline = Instant::now() + target.timeouts.connect;
    let login = login(target).ok()?;
    let stream = stream::open(target, deadline).await.ok()?;
    let subscribed = async {
        let mut messages = PubSub::new(&login, stream).await?;
        messages.subscribe(channel).await.map(|()| messages)
    };
    timeout_at(deadline, subscribed).await.ok()?.ok()
}

fn login(target: &Target) -> Result<RedisConnectionInfo> {
    let mut info =
        RedisConnectionInfo::default().set_skip_set_lib_name().set_protocol(ProtocolVersion::RESP2);
    if let Some(login) = &target.login {
        if let Some(user) = &login.user {
            info = info.set_username(user);
        }
        let password = login.password.as_ref().map(Secret::read).transpose()?;
        info = info.set_password(password.as_ref().map_or("", ExposeSecret::expose_secret));
    }
    Ok(info)
}

/// Returns when nothing comes any more.
async fn listen(messages: PubSub, mailbox: &Mailbox, patience: Duration) {
    let (mut questions, mut messages) = messages.split();
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => mailbox.deliver(message.get_payload_bytes()),
                None => return,
            },
            () = dies(&mut questions, patience) => return,
        }
    }
}

/// Returns when a sign of life did not come in time. A connection that breaks is noticed without.
async fn dies(questions: &mut PubSubSink, patience: Duration) {
    loop {
        tokio::time::sleep(SILENCE).await;
        // A refusal is one too.
        if timeout(patience, questions.ping::<Value>()).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_line_from_which_nothing_comes_is_left_in_time() {
        let (ours, _theirs) = tokio::io::duplex(1024);
        let silent =
            RedisConnectionInfo::default().set_skip_set_lib_name().set_protocol(ProtocolVersion::RESP2);
        let messages = PubSub::new(&silent, ours).await.unwrap();
        let start = Instant::now();
        listen(messages, &Mailbox::default(), Duration::from_secs(2)).await;
        assert_eq!(start.elapsed().as_secs(), 7);
    }
}
