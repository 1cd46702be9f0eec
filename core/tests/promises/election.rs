//! Leader election.

use crate::faulty_store::{CallFault, FaultyStore, TTL, options, run_ready_tasks};
use crate::l5_cancel_safety::RELEASE_TIME;
use futures_util::{FutureExt, StreamExt};
use leasehold_core::{
    DistributedLock, DistributedLockExt, Election, ErrorKind, HolderInfo, Lease, LockBackend, LockClient,
    LockMode,
};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn candidate(client: &LockClient) -> Election {
    client.elect("job").unwrap()
}

#[tokio::test(start_paused = true)]
async fn leader_excludes_the_other_candidates_until_it_resigns() {
    let store = FaultyStore::new();
    let (ada, bob) = (candidate(&store.client()), candidate(&store.client()));
    let leadership = ada.campaign().await.unwrap();
    assert!(leadership.is_leader() && leadership.token().unwrap() == leadership.term());
    let waiting = tokio::spawn(async move { bob.campaign().await });
    sleep(SECOND).await;
    assert!(!waiting.is_finished());
    let first = leadership.term();
    let start = Instant::now();
    leadership.resign().await.unwrap();
    let next = waiting.await.unwrap().unwrap();
    assert!(next.term() > first && start.elapsed() == Duration::ZERO);
    drop(next);
    sleep(RELEASE_TIME).await;
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn second_campaign_of_a_candidate_is_refused_before_any_request() {
    let store = FaultyStore::new();
    let other = candidate(&store.client());
    let leader = other.campaign().await.unwrap();
    let ada = candidate(&store.client());
    let campaign = tokio::spawn({
        let ada = ada.clone();
        async move { ada.campaign().await }
    });
    run_ready_tasks().await;
    let asked = store.acquires.calls();
    let error = ada.campaign().await.unwrap_err();
    assert_eq!((error.kind(), store.acquires.calls()), (ErrorKind::Invalid, asked));
    assert!(error.to_string().contains("campaigns already"), "{error}");

    leader.resign().await.unwrap();
    let leadership = campaign.await.unwrap().unwrap();
    let asked = store.acquires.calls();
    let error = ada.campaign().await.unwrap_err();
    assert_eq!((error.kind(), store.acquires.calls()), (ErrorKind::Invalid, asked));
    assert!(error.to_string().contains("leads already"), "{error}");

    drop(leadership);
    let leadership = ada.campaign().await.unwrap();
    store.delete("job").await;
    leadership.lost().await;
    assert!(!leadership.is_leader());
    drop(ada.campaign().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn dropped_campaign_is_over() {
    let store = FaultyStore::new();
    let leader = candidate(&store.client()).campaign().await.unwrap();
    let ada = candidate(&store.client());
    assert!(timeout(SECOND, ada.campaign()).await.is_err());
    leader.resign().await.unwrap();
    assert!(store.is_clean("job").await);
    drop(ada.campaign().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn election_resigns_the_leadership_once() {
    let store = FaultyStore::new();
    let ada = candidate(&store.client());
    ada.resign().await.unwrap();
    let leadership = ada.campaign().await.unwrap();
    ada.resign().await.unwrap();
    assert!(!leadership.is_leader() && store.is_clean("job").await);
    leadership.resign().await.unwrap();
    ada.resign().await.unwrap();
    run_ready_tasks().await;
    assert_eq!(store.releases.calls(), 1);
}

/// Work that never ends by itself, and counts how often it was begun and dropped.
#[derive(Clone, Default)]
struct Work {
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Work {
    async fn run(self, _lease: Lease) {
        struct OnDrop(Arc<AtomicUsize>);
        impl Drop for OnDrop {
            fn drop(&mut self) {
                self.0.fetch_add(1, SeqCst);
            }
        }
        let _end = OnDrop(self.ended);
        self.begun.fetch_add(1, SeqCst);
        pending::<()>().await;
    }

    fn counts(&self) -> (usize, usize) {
        (self.begun.load(SeqCst), self.ended.load(SeqCst))
    }
}

#[tokio::test(start_paused = true)]
async fn lead_resigns_when_the_work_is_done_and_answers_its_output() {
    let store = FaultyStore::new();
    let ada = candidate(&store.client());
    let output = ada.lead(|lease| async move { lease.token().unwrap() }).await.unwrap();
    assert!(store.is_clean("job").await);
    let next = ada.campaign().await.unwrap();
    assert!(next.term() > output);
}

#[tokio::test(start_paused = true)]
async fn lead_drops_the_work_on_a_loss_and_campaigns_again() {
    let store = FaultyStore::new();
    let (ada, work) = (candidate(&store.client()), Work::default());
    let leading = tokio::spawn({
        let (ada, work) = (ada.clone(), work.clone());
        async move { ada.lead(|lease| work.clone().run(lease)).await }
    });
    run_ready_tasks().await;
    assert_eq!(work.counts(), (1, 0));
    let other = candidate(&store.client());
    let other = tokio::spawn(async move { other.campaign().await });
    run_ready_tasks().await;

    store.delete("job").await;
    let other = other.await.unwrap().unwrap();
    sleep(TTL).await;
    assert_eq!(work.counts(), (1, 1), "the loss is found by a renewal, and the other leads");

    other.resign().await.unwrap();
    run_ready_tasks().await;
    assert_eq!(work.counts(), (2, 1));
    ada.resign().await.unwrap();
    run_ready_tasks().await;
    assert_eq!(work.counts(), (2, 2), "a candidate that resigned lets others go first");
    sleep(store.client().semantics().wake_up.bound()).await;
    run_ready_tasks().await;
    assert_eq!(work.counts(), (3, 2), "after a resignation it campaigns again");
    leading.abort();
    run_ready_tasks().await;
    assert_eq!(work.counts(), (3, 3));
    assert!(store.is_clean("job").await);
}

#[tokio::test(start_paused = true)]
async fn lead_waits_out_an_outage_before_and_after_its_first_term() {
    let store = FaultyStore::new();
    let (ada, work) = (candidate(&store.client()), Work::default());
    store.acquires.set_default(Some(CallFault::Unavailable));
    let leading = tokio::spawn({
        let work = work.clone();
        async move { ada.lead(|lease| work.clone().run(lease)).await }
    });
    sleep(3 * TTL).await;
    assert!(!leading.is_finished(), "the outage ended the campaign");
    store.acquires.set_default(None);
    sleep(SECOND).await;
    assert_eq!(work.counts(), (1, 0));
    for script in [&store.acquires, &store.renewals, &store.releases] {
        script.set_default(Some(CallFault::Unavailable));
    }
    sleep(3 * TTL).await;
    assert_eq!(work.counts(), (1, 1));
    assert!(!leading.is_finished());
    for script in [&store.acquires, &store.renewals, &store.releases] {
        script.set_default(None);
    }
    sleep(2 * SECOND).await;
    assert_eq!(work.counts(), (2, 1));
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn campaign_has_no_time_limit_but_that_of_its_own_options() {
    let store = FaultyStore::new();
    let backend = Arc::clone(&store) as Arc<dyn LockBackend>;
    let client = LockClient::builder(backend).with_defaults(options().with_wait(SECOND)).build();
    let leader = candidate(&store.client()).campaign().await.unwrap();
    let standby = candidate(&client);
    let campaign = tokio::spawn(async move { standby.campaign().await });
    sleep(60 * SECOND).await;
    assert!(!campaign.is_finished(), "the wait of the client ended the campaign");
    let limited = candidate(&client).with_options(options().with_wait(SECOND));
    assert_eq!(limited.campaign().await.unwrap_err().kind(), ErrorKind::TimedOut);
    leader.resign().await.unwrap();
    drop(campaign.await.unwrap().unwrap());
}

/// The first request tells of a wrong configuration. Later refusals may pass: a password is being changed.
#[tokio::test(start_paused = true)]
async fn lead_ends_at_a_refusal_before_its_first_answer_only() {
    let store = FaultyStore::new();
    let (ada, work) = (candidate(&store.client()), Work::default());
    store.acquires.push(CallFault::Error(ErrorKind::Denied));
    let error = ada.lead(|lease| work.clone().run(lease)).await.unwrap_err();
    assert_eq!((error.kind(), work.counts()), (ErrorKind::Denied, (0, 0)));

    let leading = tokio::spawn({
        let work = work.clone();
        async move { ada.lead(|lease| work.clone().run(lease)).await }
    });
    run_ready_tasks().await;
    store.acquires.set_default(Some(CallFault::Error(ErrorKind::Denied)));
    store.delete("job").await;
    sleep(3 * TTL).await;
    assert!(!leading.is_finished(), "a refusal after the first term ended the candidate");
    assert_eq!(work.counts(), (1, 1));
    store.acquires.set_default(None);
    sleep(2 * SECOND).await;
    assert_eq!(work.counts(), (2, 1));
    leading.abort();
}

#[tokio::test(start_paused = true)]
async fn lead_of_a_closed_client_ends() {
    let store = FaultyStore::new();
    let client = store.client();
    let leading = tokio::spawn({
        let (ada, work) = (candidate(&client), Work::default());
        async move { ada.lead(|lease| work.clone().run(lease)).await }
    });
    run_ready_tasks().await;
    client.close().await.unwrap();
    assert_eq!(leading.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn observer_shows_each_change_once_and_never_a_smaller_term() {
    let store = FaultyStore::new();
    let client = store.client();
    let mut leaders = candidate(&client).observe().unwrap();
    let mut next_item = async || match timeout(5 * SECOND, leaders.next()).await {
        Ok(item) => Some(item.unwrap().unwrap()),
        Err(_) => None,
    };
    assert!(next_item().await.unwrap().is_none(), "nobody leads yet");
    assert!(next_item().await.is_none(), "nobody leads, which was shown");
    assert!(candidate(&client).leader().await.unwrap().is_none());

    let ada = client
        .elect("job")
        .unwrap()
        .with_options(options().with_holder(&HolderInfo::default().with_doing("ada")));
    let leadership = ada.campaign().await.unwrap();
    let seen = next_item().await.unwrap().unwrap();
    assert_eq!((seen.term, seen.who.doing.as_str()), (leadership.term(), "ada"));
    assert!(seen.since.is_some());
    assert!(next_item().await.is_none(), "the same term");
    assert_eq!(candidate(&client).leader().await.unwrap().unwrap().term, leadership.term());

    leadership.resign().await.unwrap();
    let next = ada.campaign().await.unwrap();
    assert_eq!(next_item().await.unwrap().unwrap().term, next.term());

    next.resign().await.unwrap();
    assert!(next_item().await.unwrap().is_none(), "nobody leads any more");
    assert!(next_item().await.is_none(), "nobody leads, which was shown");
}

#[tokio::test(start_paused = true)]
async fn observer_that_is_dropped_between_two_items_forgets_nothing() {
    let store = FaultyStore::new();
    let ada = candidate(&store.client());
    let leadership = ada.campaign().await.unwrap();
    let mut leaders = ada.observe().unwrap();
    let mut seen = None;
    for _ in 0..100 {
        if let Some(leader) = leaders.next().now_or_never() {
            seen = leader;
            break;
        }
    }
    assert_eq!(seen.unwrap().unwrap().unwrap().term, leadership.term());
}

#[tokio::test(start_paused = true)]
async fn name_of_an_election_is_checked() {
    let client = FaultyStore::new().client();
    for name in ["", "pool::gate", "pool::slot:1"] {
        assert_eq!(client.elect(name).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

/// Two that lead together would not be leaders.
#[tokio::test]
async fn shared_campaign_is_refused_before_any_request() {
    let store = FaultyStore::new();
    let options = options().with_mode(LockMode::Shared);
    let election = store.client().elect("job").unwrap().with_options(options);
    assert_eq!(election.campaign().await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(store.acquires.calls(), 0);
}
