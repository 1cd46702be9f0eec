//! R: what is told to logs and people.

use crate::cases::prelude::*;
use std::error::Error as _;
use std::iter::successors;

pub(super) const CASES: CaseTable = cases![
    R06 no_output_shows_a_secret,
];

async fn no_output_shows_a_secret(cx: &Context) -> Verdict {
    let (address, secret) = cx.store().secret().await?;
    let mut shown = String::new();
    let client = match cx.client_at(&address).await {
        Ok(client) => client,
        Err(stop) => {
            shown += &format!("{stop:?}");
            cx.client().await?
        }
    };
    shown += &format!("{client:?} {client:#?} {:?}", client.semantics());
    // Whether or not the store lets it in: errors are where secrets come out.
    let options = AcquireOptions::new().with_wait(Duration::from_millis(300));
    match client.acquire_with(&cx.name(), &options).await {
        Ok(guard) => shown += &format!("{guard:?} {:?}", guard.lease()),
        Err(error) => {
            shown += &format!("{error} {error:?} {:?}", error.help());
            for cause in successors(error.source(), |&cause| cause.source()) {
                shown += &format!("{cause} {cause:?}");
            }
        }
    }
    if let Some(admin) = client.admin() {
        shown += &format!("{:?} {:?}", admin.check().await, admin.list("").await);
    }
    let shown_secret = shown.contains(&secret);
    ensure!(!shown_secret, "a password appears in what is printed: {}", shown.replace(&secret, "<HERE>"));
    Ok(())
}
