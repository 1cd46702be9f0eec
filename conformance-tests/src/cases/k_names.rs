//! K: names. All that a store might take for one are held at once: each was granted while the others were held.

use crate::cases::hash_collisions::collisions;
use crate::cases::prelude::*;
use crate::cases::t_shared_locks::modes::waiter;
use leasehold_core::{Error, LockMode, Namespace, Sharing};
use std::sync::OnceLock;

pub(super) const CASES: CaseTable = cases![
    K02 any_name_works_and_collides_with_no_other,
    K05 prefixes_keep_applications_apart,
    K06 spellings_of_one_address_are_one_store,
    K07 names_of_one_number_or_one_word_differ,
    K08 names_with_one_32_bit_hash_differ,
    K09 names_that_look_like_companion_keys_differ,
    K10 names_that_begin_or_end_alike_differ,
    K11 longest_names_under_the_longest_prefix_differ,
    K12 names_that_repeat_their_prefix_differ,
];

/// Takes all of them at once, with one client, and gives them back.
async fn all_at_once(cx: &Context, names: &[LockName]) -> Verdict {
    all_at_once_at(cx, &cx.store().address(), names).await
}

async fn all_at_once_at(cx: &Context, address: &str, names: &[LockName]) -> Verdict {
    let (client, other) = (cx.client_at(address).await?, cx.client_at(address).await?);
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
    release_all(guards).await?;
    ensure_all_free(&other, names, "a name that was released").await
}

async fn any_name_works_and_collides_with_no_other(cx: &Context) -> Verdict {
    const SHORT: &str = ". .. ../x / // /abs a/b a//b { } {} {a} a}b {a}b a{b}c % %7B %25 _ * ? [a] \\ ' \" ` \
        ; -- $1 : a:holder a:token 🔒 日本語 \u{2028} \u{200f}rtl zookeeper";
    let names: Vec<LockName> = SHORT.split(' ').map(|name| cx.named(name)).collect();
    all_at_once(cx, &names).await
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

/// The names have nothing in front of them: a store that trims, or that compares a column of text with a number, looks at the whole
/// name.
async fn names_of_one_number_or_one_word_differ(cx: &Context) -> Verdict {
    const FORMS: &str = "#|0#|00#|#.0|#.|#e0|+#|.#|..#|#..| #|# |  #|\u{a0}#|#\u{3000}|\u{ff11}#|1#";
    let n = fastrand::u32(100_000..1_000_000);
    let mut numbers: Vec<String> = FORMS.split('|').map(|form| form.replace('#', &n.to_string())).collect();
    numbers.extend([format!("{}e3", f64::from(n) / 1000.0), format!("0x{n:x}")]);
    all_at_once(cx, &bare(cx, &numbers)).await?;
    all_at_once(cx, &bare(cx, &WORDS.map(|word| format!("{word}{n}")))).await?;
    all_at_once(cx, &bare(cx, &WORDS.map(|word| format!("{n}{word}")))).await
}

/// Alike but for case, accents, blanks, and the forms in which Unicode has a letter. `\u{212a}` is Kelvin's K.
const WORDS: [&str; 25] = [
    "k", "K", "\u{212a}", "s", "S", "ſ", "fi", "ﬁ", "e", "E", "é", "e\u{301}", "É", "ss", "ß", "ẞ", "İ",
    "i\u{307}", "i", "ı", "a", "ａ", "A", " A", "A ",
];

/// The names are as long as each other, and alike but for their last digits.
async fn names_with_one_32_bit_hash_differ(cx: &Context) -> Verdict {
    // The pairs are found once in a process, because it takes a while; with all that stands before them, which is hashed, too.
    static FOUND: OnceLock<(String, Vec<String>)> = OnceLock::new();
    let root = &*cx.config().root;
    let find = || {
        let front = format!("{root}{:06x}-", fastrand::u32(..1 << 24));
        let names = collisions(&front).into_iter().map(|name| name[root.len()..].to_owned());
        (root.to_owned(), names.collect())
    };
    let found = FOUND.get_or_init(find);
    let (_, names) = if found.0 == root { found } else { &find() };
    all_at_once(cx, &bare(cx, names)).await
}

/// The names are those of keys that a backend might keep beside a lock. The plain name comes first, and then last.
async fn names_that_look_like_companion_keys_differ(cx: &Context) -> Verdict {
    const AFTER: &str = ":holder :token :fence :fencing :queue :waiters :waiter :lock :lease :owner :shared \
        :readers :writer :count :ttl :channel :meta :info :wanted :mark :1 /lock /lock-0000000000 .lock _lock -lock-";
    let base = format!("k{:08x}", fastrand::u32(..));
    let mut names = vec![base.clone()];
    names.extend(AFTER.split(' ').map(|after| format!("{base}{after}")));
    for front in ["lock:", "token:", "fence:", "queue:", "leasehold:", "redlock:", "__READ__", "__WRIT__"] {
        names.push(format!("{front}{base}"));
    }
    names.extend(
        [":holder", ":token", ":queue", ":waiters", ":fence"].map(|after| format!("{{{base}}}{after}")),
    );
    let mut names = bare(cx, &names);
    all_at_once(cx, &names).await?;
    names.reverse();
    all_at_once(cx, &names).await?;
    let (Some(base), true) = (names.pop(), cx.semantics().await?.sharing != Sharing::Unsupported) else {
        return Ok(());
    };
    let _reader = cx.client().await?.take(&base, &cx.options().with_mode(LockMode::Shared)).await?;
    let _writer = optional(waiter(cx, &base, LockMode::Write).await)?;
    all_at_once(cx, &names).await
}

/// A name, and what begins or ends with it; and the longest names, which differ in one byte at the front, in the middle or at
/// the end, and one that is shorter by a byte.
async fn names_that_begin_or_end_alike_differ(cx: &Context) -> Verdict {
    let base = format!("{:08x}", fastrand::u32(..));
    let mut names: Vec<String> =
        ["", "/", "//", "/a", "/a/b", "a", "aa", "1", "11", ":", "::", "{}", "%", "*", "a/"]
            .iter()
            .map(|after| format!("{base}{after}"))
            .collect();
    names.extend(["/", ":", "a", "1", "a/"].map(|front| format!("{front}{base}")));
    let room = LockName::MAX_BYTES - cx.bare(&base).as_str().len();
    for at in [None, Some(0), Some(room / 2), Some(room - 1)] {
        let mut long = vec![b'x'; room];
        at.into_iter().for_each(|at| long[at] = b'y');
        let long = String::from_utf8_lossy(&long).into_owned();
        let (front, back) = long.split_at(room / 2);
        names.push(format!("{front}{base}{back}"));
    }
    names.push(format!("{}{base}{}", "x".repeat(room / 2), "x".repeat(room - room / 2 - 1)));
    all_at_once(cx, &bare(cx, &names)).await
}

/// The prefix is as long as the core lets one be. Either all names are locks of their own, which are listed, or the store says its
/// limit before it does anything.
async fn longest_names_under_the_longest_prefix_differ(cx: &Context) -> Verdict {
    let prefix = format!("{}/", "p".repeat(Namespace::MAX_BYTES - 1));
    let address = cx.store().namespaced(&prefix).await?;
    let room = LockName::MAX_BYTES - cx.named("").as_str().len();
    let long = |first: &str, last: &str| cx.named(&format!("{first}{}{last}", "x".repeat(room - 2)));
    let names = [long("a", "a"), long("a", "b"), long("b", "a")];
    let refusal = |error: Error| {
        let says = error.kind() == ErrorKind::Invalid && error.to_string().contains("limit");
        ensure!(says, "a long name under a long prefix is refused, and no limit is named: {error}");
        Ok(())
    };
    let client = match cx.subject().connect(&address).await {
        Ok(client) => client,
        Err(error) => return refusal(error),
    };
    let guard = match client.acquire_with(&names[0], &AcquireOptions::new()).await {
        Ok(guard) => guard,
        Err(error) => return refusal(error),
    };
    let listed = client.looking()?.list(cx.mark()).await?;
    let listed: Vec<&LockName> = listed.iter().map(|status| &status.name).collect();
    ensure!(listed == [&names[0]], "of a long name under a long prefix, {listed:?} is listed");
    guard.release().await?;
    all_at_once_at(cx, &address, &names).await
}

/// A name that begins with the prefix is another one than what follows.
async fn names_that_repeat_their_prefix_differ(cx: &Context) -> Verdict {
    let name = format!("{:08x}", fastrand::u32(..));
    let names = ["", "shop/", "shop/shop/", "shop", "sho"].map(|front| cx.bare(&format!("{front}{name}")));
    all_at_once_at(cx, &cx.store().namespaced("shop/").await?, &names).await
}

/// Names that begin with nothing but what all names of a run begin with. They are unique by a number in them.
fn bare(cx: &Context, names: &[String]) -> Vec<LockName> {
    names.iter().map(|name| cx.bare(name)).collect()
}
