//! K: names.

use crate::cases::prelude::*;

pub(super) const CASES: CaseTable = cases![
    K01 names_differ_by_case_accent_and_space,
    K02 any_name_works_and_collides_with_no_other,
    K03 long_names_that_differ_at_the_end_differ,
    K05 prefixes_keep_applications_apart,
    K06 spellings_of_one_address_are_one_store,
];

/// Takes all of them at once, with one client, and gives them back.
pub(super) async fn all_at_once(cx: &Context, names: &[LockName]) -> Verdict {
    let (client, other) = (cx.client().await?, cx.client().await?);
    let mut guards = Vec::new();
    for name in names {
        let guard = client.poke(name).await?;
        ensure!(guard.is_some(), "{name:?} is blocked by another of {names:?}");
        guards.extend(guard);
        ensure_held(&other, name, "a name that is held").await?;
    }
    for name in names {
        ensure_held(&other, name, "a name that is held, once all others are").await?;
    }
    for guard in guards {
        guard.release().await?;
    }
    for name in names {
        ensure_free(&other, name, "a name that was released").await?;
    }
    Ok(())
}

async fn names_differ_by_case_accent_and_space(cx: &Context) -> Verdict {
    let names = ["A", "a", "A ", " A", "Á", "A\u{301}", "ａ", "ß", "ss", "ı", "i"];
    all_at_once(cx, &names.map(|name| cx.named(name))).await
}

async fn any_name_works_and_collides_with_no_other(cx: &Context) -> Verdict {
    let names = [
        ".",
        "..",
        "../x",
        "/",
        "//",
        "/abs",
        "a/b",
        "a//b",
        "{",
        "}",
        "{}",
        "{a}",
        "a}b",
        "{a}b",
        "a{b}c",
        "%",
        "%7B",
        "%25",
        "_",
        "*",
        "?",
        "[a]",
        "\\",
        "'",
        "\"",
        "`",
        ";",
        "--",
        "$1",
        ":",
        "a:holder",
        "a:token",
        "🔒",
        "日本語",
        "\u{200f}rtl",
        "\u{2028}",
        "zookeeper",
    ];
    all_at_once(cx, &names.map(|name| cx.named(name))).await
}

async fn long_names_that_differ_at_the_end_differ(cx: &Context) -> Verdict {
    let room = LockName::MAX_BYTES - cx.named("").as_str().len();
    let long = |last: char| cx.named(&format!("{}{last}", "x".repeat(room - 1)));
    let shorter = cx.named(&"x".repeat(room - 1));
    all_at_once(cx, &[long('a'), long('b'), shorter]).await
}

async fn prefixes_keep_applications_apart(cx: &Context) -> Verdict {
    let shop = cx.client_at(&cx.store().namespaced("shop/").await?).await?;
    let same = cx.client_at(&cx.store().namespaced("shop/").await?).await?;
    let other = cx.client_at(&cx.store().namespaced("sho").await?).await?;
    let name = cx.name();
    let guard = shop.take(&name, &AcquireOptions::new()).await?;
    ensure_free(&other, &name, "the same name under another prefix").await?;
    ensure_held(&same, &name, "the same name under the same prefix").await?;
    let listed = shop.looking()?.list(cx.mark()).await?;
    let names: Vec<&str> = listed.iter().map(|status| status.name.as_str()).collect();
    ensure!(names == [name.as_str()], "listed {names:?} under the prefix");
    Ok(guard.release().await?)
}

async fn spellings_of_one_address_are_one_store(cx: &Context) -> Verdict {
    let (client, name) = (cx.client().await?, cx.name());
    let aliases = cx.store().aliases().await?;
    let guard = client.take(&name, &AcquireOptions::new()).await?;
    for alias in aliases {
        ensure_held(&cx.client_at(&alias).await?, &name, &alias).await?;
    }
    Ok(guard.release().await?)
}
