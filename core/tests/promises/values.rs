//! Values: their text forms, their limits, and the secrets that their text forms hide.

use leasehold_core::memory::MemoryBackend;
use leasehold_core::{
    AcquireOptions, Busy, Claim, DistributedLock, DistributedLockExt, Error, ErrorKind, Fault, FencingToken,
    Finding, Health, HoldKind, HolderInfo, LockBackend, LockClient, LockName, LockStatus, Loss, LossCause,
    Namespace, Outcome, OwnerId, Purge, Severity, Wait,
};
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn name() -> LockName {
    LockName::new("job").unwrap()
}

#[test]
fn error_kind_decides_contended_and_retryable() {
    let advice = |kind| {
        let error = Error::new(kind, "message");
        (error.is_contended(), error.is_retryable())
    };
    for kind in [ErrorKind::Busy, ErrorKind::TimedOut] {
        assert_eq!(advice(kind), (true, true), "{kind:?}");
    }
    for kind in [ErrorKind::Unavailable, ErrorKind::Indeterminate] {
        assert_eq!(advice(kind), (false, true), "{kind:?}");
    }
    for kind in [ErrorKind::Lost, ErrorKind::Invalid, ErrorKind::Denied, ErrorKind::Closed] {
        assert_eq!(advice(kind), (false, false), "{kind:?}");
    }
}

/// Scripts match on them.
#[test]
fn error_codes_and_loss_messages_are_stable() {
    let kinds = [
        (ErrorKind::Busy, "E_BUSY"),
        (ErrorKind::TimedOut, "E_TIMED_OUT"),
        (ErrorKind::Lost, "E_LOST"),
        (ErrorKind::Indeterminate, "E_INDETERMINATE"),
        (ErrorKind::Unavailable, "E_UNAVAILABLE"),
        (ErrorKind::Denied, "E_DENIED"),
        (ErrorKind::Misconfigured, "E_MISCONFIGURED"),
        (ErrorKind::Invalid, "E_INVALID"),
        (ErrorKind::Unsupported, "E_UNSUPPORTED"),
        (ErrorKind::Closed, "E_CLOSED"),
    ];
    assert!(kinds.iter().all(|(kind, code)| kind.code() == *code));
    let message = |cause| Loss::new(cause).to_string();
    assert_eq!(message(LossCause::Gone), "the store no longer has it");
    assert_eq!(message(LossCause::MaxHold), "it was held for as long as its holder allowed");
    assert_eq!(message(LossCause::ReadOnly), "its server takes no writes any more");
    assert_eq!(LossCause::Taken.to_string(), "another owner holds it");
}

#[test]
fn error_debug_shows_kind_message_help_and_source() {
    let cause = std::io::Error::other("the cause");
    let error = Error::new(ErrorKind::Busy, "it is held").with_help("wait").with_source(cause);
    let logged = format!("{error:?}");
    for part in ["E_BUSY", "it is held", "wait", "the cause"] {
        assert!(logged.contains(part), "{logged}");
    }
}

#[test]
fn claim_debug_shows_name_and_ttl_and_hides_the_holder() {
    let claim = Claim::new(name(), OwnerId::from_u128(7), SECOND, Arc::from("of the holder"));
    assert_eq!((claim.ttl_millis(), claim.waits()), (1_000, false));
    assert!(claim.clone().with_waiting(true).waits());
    let logged = format!("{claim:?}");
    assert!(logged.contains("job") && logged.contains("1s"), "{logged}");
    assert!(!logged.contains("of the holder"), "{logged}");
}

#[test]
fn busy_answer_carries_the_end_of_the_lease() {
    let busy = Busy::new().with_end(SECOND);
    assert_eq!((busy.ends_in, busy.queued), (Some(SECOND), false));
    assert!(busy.with_place_in_queue().queued);
}

/// A lock of another program has no token on Redis, and no end on ZooKeeper. It is not a released lock that lingers.
#[test]
fn lock_of_another_program_is_not_reported_as_released() {
    let (owner, token) = (Some(OwnerId::from_u128(7)), Some(FencingToken::new(1)));
    let is_released = |owner, token, ends_in| {
        let mut status = LockStatus::new(name());
        (status.owner, status.token, status.ends_in) = (owner, token, ends_in);
        status.is_released()
    };
    assert!(is_released(None, token, Some(SECOND)));
    assert!(!is_released(owner, token, Some(SECOND)));
    assert!(!is_released(None, None, Some(SECOND)));
    assert!(!is_released(None, token, None));
    assert!(!is_released(None, None, None));
}

#[test]
fn holder_display_shows_the_known_parts() {
    let mut holder = HolderInfo::default();
    assert_eq!(holder.to_string(), "an unnamed holder");
    holder.pid = 7;
    assert_eq!(holder.to_string(), "@:7");
    holder.user = "ada".to_owned();
    holder.host = "db1".to_owned();
    assert_eq!(holder.to_string(), "ada@db1:7");
    holder.pid = 0;
    assert_eq!(holder.to_string(), "ada@db1:0");
    holder.user.clear();
    assert_eq!(holder.to_string(), "@db1:0");
    let this = HolderInfo::this_process();
    assert_eq!(this.pid, std::process::id());
    assert!(!this.user.is_empty() && !this.host.is_empty() && this.doing.starts_with("promises"), "{this:?}");
    assert_eq!(this.clone().with_label("k", "v").labels["k"], "v");
    assert_eq!(this.clone().with_label("k", "v").pid, this.pid);
}

#[test]
fn names_and_tokens_display_their_value() {
    assert_eq!((format!("{}", name()), format!("{:?}", name())), ("job".to_owned(), "\"job\"".to_owned()));
    assert_eq!(FencingToken::new(7).to_string(), "7");
    assert_eq!(FencingToken::MAX_COUNTED, 9_007_199_254_740_991);
    assert_eq!(OwnerId::from_u128(7).as_u128(), 7);
    assert_eq!(Namespace::new("shop/").unwrap().prefix(), "shop/");
}

#[test]
fn token_converts_to_the_integers_of_a_query() {
    assert_eq!((FencingToken::new(7).get(), i64::from(FencingToken::new(7))), (7, 7));
    let largest = FencingToken::new(u64::MAX);
    assert_eq!(i64::from(largest), i64::MAX, "a column has no larger number");
}

#[test]
fn error_kind_display_is_its_words() {
    let kinds = [
        (ErrorKind::Busy, "busy"),
        (ErrorKind::TimedOut, "timed out"),
        (ErrorKind::Lost, "lost"),
        (ErrorKind::Indeterminate, "unknown outcome"),
        (ErrorKind::Unavailable, "unavailable"),
        (ErrorKind::Denied, "denied"),
        (ErrorKind::Misconfigured, "misconfigured"),
        (ErrorKind::Invalid, "invalid"),
        (ErrorKind::Unsupported, "unsupported"),
        (ErrorKind::Closed, "closed"),
    ];
    for (kind, words) in kinds {
        assert_eq!(kind.to_string(), words);
    }
}

#[test]
fn health_display_is_its_words() {
    assert_eq!(
        [Health::Held, Health::AtRisk, Health::Ended].map(|health| health.to_string()),
        ["held", "at risk", "ended"]
    );
}

#[test]
fn finding_display_shows_severity_code_message_and_help() {
    let shown = |severity| {
        Finding::new(severity, "W_EVICT", "the server may evict locks", "set noeviction").to_string()
    };
    assert_eq!(shown(Severity::Info), "info W_EVICT: the server may evict locks; set noeviction");
    assert_eq!(shown(Severity::Warning), "warning W_EVICT: the server may evict locks; set noeviction");
    assert_eq!(shown(Severity::Error), "error W_EVICT: the server may evict locks; set noeviction");
}

#[test]
fn lock_status_display_shows_the_known_parts() {
    let mut status = LockStatus::new(name());
    assert_eq!(status.to_string(), "job: held by an unnamed holder");
    status.owner = Some(OwnerId::from_u128(7));
    status.token = Some(FencingToken::new(7));
    (status.holder.user, status.holder.host, status.holder.pid) =
        ("ada".to_owned(), "web-1".to_owned(), 4711);
    assert_eq!(status.to_string(), "job: held by ada@web-1:4711, token 7");
    status.ends_in = Some(Duration::from_millis(12_345));
    assert_eq!(status.to_string(), "job: held by ada@web-1:4711, token 7, ends in 12.3s");
    status.owner = None;
    assert_eq!(status.to_string(), "job: released, not yet free, token 7, ends in 12.3s");
}

#[test]
fn options_at_their_limits_are_accepted() {
    let options = AcquireOptions::new().with_wait(SECOND).with_max_hold(SECOND);
    assert_eq!((options.wait(), options.max_hold()), (Wait::UpTo(SECOND), SECOND));
    assert!(options.with_hold_at_least(SECOND).check().is_ok());
    let longest = AcquireOptions::new().with_hold_at_least(AcquireOptions::MAX_TTL);
    assert!(longest.check().is_ok());
    let fixed = HolderInfo::default().with_doing("").to_json().len();
    let described = |bytes: usize| {
        let holder = HolderInfo::default().with_doing("x".repeat(bytes));
        (holder.to_json().len(), AcquireOptions::new().with_holder(&holder).check().is_ok())
    };
    let overhead = described(1).0 - 1;
    assert!(fixed <= overhead);
    assert_eq!(described(HolderInfo::MAX_BYTES - overhead), (HolderInfo::MAX_BYTES, true));
    assert_eq!(described(HolderInfo::MAX_BYTES - overhead + 1), (HolderInfo::MAX_BYTES + 1, false));
}

#[tokio::test]
async fn memory_backend_declares_its_promise_for_each_fault() {
    let memory = MemoryBackend::new();
    let promises = memory.semantics().promises;
    for fault in [
        Fault::None,
        Fault::HolderPaused,
        Fault::ExecutorStarved,
        Fault::ClientClockJumps,
        Fault::ClientSuspended,
    ] {
        assert_eq!(promises.under(fault), Outcome::Holds, "{fault:?}");
    }
    assert_eq!(promises.under(Fault::RecordDeleted), Outcome::FencedOnly);
    assert_eq!(promises.under(Fault::SplitBrain), Outcome::NotApplicable);
    assert!(futures_util::poll!(std::pin::pin!(memory.suspects())).is_pending(), "it reports suspects");
}

#[test]
fn promises_cover_every_fault() {
    let promises = MemoryBackend::new().semantics().promises;
    let faults: Vec<Fault> = promises.iter().map(|(fault, _)| fault).collect();
    assert!(faults.contains(&Fault::None) && faults.contains(&Fault::NetworkFileSystem));
    assert!(promises.iter().all(|(fault, outcome)| promises.under(fault) == outcome));
}

#[tokio::test]
async fn memory_lock_is_force_released_with_its_token_only() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    let (first, _other) = (client.acquire("a/1").await.unwrap(), client.acquire("b/1").await.unwrap());
    let (admin, name, token) =
        (client.admin().unwrap(), LockName::new("a/1").unwrap(), first.token().unwrap());
    let listed = admin.list("a/").await.unwrap();
    assert_eq!(listed.iter().map(|status| status.name.as_str()).collect::<Vec<_>>(), ["a/1"]);
    assert_eq!(admin.list("").await.unwrap().len(), 2);
    assert!(admin.force_release(&name, Some(FencingToken::new(1))).await.unwrap().is_empty());
    assert!(!admin.inspect(&name).await.unwrap().is_empty(), "released with another token");
    let forced = admin.force_release(&name, Some(token)).await.unwrap();
    assert_eq!(forced[0].token, Some(token));
    assert!(admin.list("a/").await.unwrap().is_empty());
    assert_eq!(admin.init_script(), None);
}

#[tokio::test]
async fn purge_of_a_store_that_keeps_nothing_counts_nothing() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    let admin = client.admin().unwrap();
    assert_eq!(admin.purge(SECOND * 3600, Purge::Delete).await.unwrap(), None);
}

/// Also on a store without anything to purge: a script that is tested on one store may run on another.
#[tokio::test]
async fn purge_with_too_short_idle_time_is_refused() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    for purge in [Purge::Count, Purge::Delete] {
        for idle in [Duration::ZERO, SECOND * 3600 - Duration::from_nanos(1)] {
            let error = client.admin().unwrap().purge(idle, purge).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert!(error.to_string().starts_with("invalid idle: ") && error.help().is_some(), "{error:?}");
        }
    }
}

#[tokio::test]
async fn client_and_guard_debug_show_the_store_and_the_lock() {
    let client = LockClient::builder(Arc::new(MemoryBackend::new()) as Arc<dyn LockBackend>).build();
    assert!(format!("{client:?}").contains("MemoryBackend"), "{client:?}");
    let guard = client.acquire("job").await.unwrap();
    let token = guard.token().unwrap();
    for logged in [format!("{guard:?}"), format!("{:?}", guard.lease())] {
        assert!(logged.contains("\"job\"") && logged.contains(&token.to_string()), "{logged}");
    }
    assert_eq!(client.semantics().hold, HoldKind::Lease);
}
