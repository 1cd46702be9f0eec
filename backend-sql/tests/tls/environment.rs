//! What decides is the URL. The driver of PostgreSQL takes words from the environment besides, as `libpq` does.

use crate::kit::{both, open, showing, trusting};
use leasehold_core::{Claim, LockName, OwnerId};
use leasehold_test_stores::servers::CertificateAuthority;
use std::process::Command;
use std::time::Duration;

const URL: &str = "LEASEHOLD_TEST_URL";

/// The environment of a process is set before it starts, so this runs itself again.
#[tokio::test]
async fn libpq_environment_decides_nothing() {
    if let Ok(url) = std::env::var(URL) {
        return answer(&url).await;
    }
    let authority = CertificateAuthority::new().unwrap();
    let [_, server] = both(&authority, &["localhost"]).await;
    let place = |file: &str| authority.path(file).display().to_string();
    let with = |words: &str| server.url("localhost", words);

    let plain = with("&sslmode=disable");
    assert_eq!(ask(&plain, &[("PGOPTIONS", "")]), "held");
    assert_eq!(ask(&plain, &[("PGSSLCERT", "/nowhere"), ("PGSSLKEY", "/nowhere")]), "held");
    let elsewhere = ask(&plain, &[("PGOPTIONS", "-c search_path=elsewhere")]);
    assert!(elsewhere.contains("Misconfigured PGOPTIONS is set"), "{elsewhere}");

    server.refuse_plain().await;
    let encrypted = with(&format!("&sslmode=verify-full{}", trusting(&authority)));
    assert_eq!(ask(&encrypted, &[("PGSSLROOTCERT", "/nowhere")]), "held");
    let denied = ask(&encrypted.replace(":sesame", ""), &[("PGPASSWORD", "sesame")]);
    assert!(denied.starts_with("Denied"), "{denied}");
    let believed = ask(&with("&sslmode=verify-full"), &[("PGSSLROOTCERT", &place("ca.pem"))]);
    assert!(believed.contains("is not trusted"), "{believed}");
    authority.certify("client", &["locker"]).unwrap();
    for variable in ["PGSSLCERT", "PGSSLKEY"] {
        for url in [&encrypted, &with("&sslmode=require")] {
            let shown = ask(url, &[(variable, &place("client.pem"))]);
            assert!(shown.contains(&format!("Misconfigured {variable} is set")), "{shown}");
        }
        let ours = format!("{encrypted}{}", showing(&authority, "client"));
        assert_eq!(ask(&ours, &[(variable, "/nowhere")]), "held");
    }
}

/// What a process with these variables is answered.
fn ask(url: &str, variables: &[(&str, &str)]) -> String {
    let name = "environment::libpq_environment_decides_nothing";
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "--nocapture", name]).env(URL, url).envs(variables.iter().copied());
    let said = process.output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    said.lines().find_map(|line| line.strip_prefix("answer: ")).map_or(said.clone(), str::to_owned)
}

async fn answer(url: &str) {
    let claim = Claim::new(
        LockName::new("job").unwrap(),
        OwnerId::random().unwrap(),
        Duration::from_secs(30),
        "{}".into(),
    );
    let held = async {
        let backend = open(url)?;
        backend.try_acquire(&claim).await?;
        backend.release(&claim, Duration::ZERO).await
    };
    match held.await {
        Ok(_) => eprintln!("answer: held"),
        Err(error) => eprintln!("answer: {:?} {error}", error.kind()),
    }
}
