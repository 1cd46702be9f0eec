//! What the guides say of this suite: the backend that `docs/backend-author.md` shows is the one that the suite runs, and the
//! cases that the guides name exist.

#![allow(clippy::unwrap_used, reason = "a test that unwraps fails, which is what it is for")]

use leasehold_conformance::by_id;

const BACKEND_AUTHOR: &str = include_str!("../../docs/backend-author.md");
const SEMANTICS: &str = include_str!("../../docs/semantics.md");

#[test]
fn guide_shows_the_toy_backend_to_the_letter() {
    let (_, code) = BACKEND_AUTHOR.split_once("```rust\n").unwrap();
    let (code, _) = code.split_once("```\n").unwrap();
    assert_eq!(code, include_str!("toy.rs"), "copy tests/toy.rs into docs/backend-author.md");
}

#[test]
fn cases_that_the_guides_name_exist() {
    for guide in [BACKEND_AUTHOR, SEMANTICS] {
        let named: Vec<String> =
            guide.split(|c: char| !c.is_alphanumeric() && c != '–').flat_map(cases).collect();
        assert!(named.len() > 50, "{named:?}");
        let missing: Vec<&String> = named.iter().filter(|id| by_id(id).is_none()).collect();
        assert!(missing.is_empty(), "no such cases: {missing:?}");
    }
}

/// The ids in a word: `A02` is one, and `J17–J20` are four.
fn cases(word: &str) -> Vec<String> {
    let number = |id: &str| {
        let (family, number) = id.split_at_checked(1)?;
        let is_id = family.chars().all(|c| c.is_ascii_uppercase()) && number.len() == 2;
        is_id.then(|| number.parse::<u8>().ok()).flatten()
    };
    let (first, last) = word.split_once('–').unwrap_or((word, word));
    match (number(first), number(last)) {
        (Some(from), Some(to)) => (from..=to).map(|number| format!("{}{number:02}", &first[..1])).collect(),
        _ => Vec::new(),
    }
}
