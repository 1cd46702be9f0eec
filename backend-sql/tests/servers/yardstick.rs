//! The databases without a library over them, as `leasehold bench --raw` measures them.

use crate::kit::both;
use leasehold_core::bench::ByHand;
use leasehold_core::{LockName, Namespace};
use leasehold_store_url::StoreUrl;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn yardstick_leaves_no_row() {
    for server in both().await {
        let login = if server.is_postgres() { "postgres" } else { "root" };
        let url = StoreUrl::parse(&server.url_at(server.port(), login, "connections=2")).unwrap();
        let yardstick = leasehold_sql::bench::open(&url, &Namespace::default()).unwrap().unwrap();
        let names: Vec<LockName> = (0..20).map(|n| LockName::new(format!("job-{n}")).unwrap()).collect();
        assert!(!yardstick.server().await.unwrap().contains("unknown"));
        for name in &names {
            yardstick.raw_pair(name).await.unwrap();
        }
        assert_eq!(yardstick.has(ByHand::Notice), server.is_postgres());
        match server.is_postgres() {
            true => assert!(yardstick.raw_notice(&names[0]).await.unwrap() < Duration::from_secs(5)),
            false => assert!(yardstick.counters().await.unwrap().unwrap().commands >= 40),
        }
        yardstick.forget(&names).await.unwrap();
        assert_eq!(server.number("SELECT COUNT(*) FROM leasehold").await, 0);
    }
}
