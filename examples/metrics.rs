//! The metrics of a client, as Prometheus reads them: `cargo run --example metrics --features metrics`.

#![allow(clippy::print_stdout, clippy::expect_used, reason = "an example talks, and has one recorder")]

use leasehold::{Config, DistributedLockExt, Registry, Result};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle(); // a web server answers `GET /metrics` with `page.render()`
    metrics::set_global_recorder(recorder).expect("no other recorder is installed");

    let config = Config::new("memory:")?; // Config::load() reads the environment and leasehold.toml
    let locks = Registry::default().connect_with(&config, leasehold::metrics::observed).await?;

    let guard = locks.acquire("report").await?;
    assert!(locks.acquire_timeout("report", Duration::from_millis(20)).await.is_err());
    println!("{}", page.render());
    assert!(
        page.render().contains("leasehold_held{backend=\"memory\",mode=\"process\",kind=\"exclusive\"} 1")
    );
    guard.release().await
}
