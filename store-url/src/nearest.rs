/// The known word that is nearest to an unknown one, if it is near.
pub fn nearest<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|word| (strsim::damerau_levenshtein(unknown, word), word));
    distances.filter(|(distance, word)| *distance <= 1 + word.len() / 4).min().map(|(_, word)| word)
}

/// The help for an unknown word: the nearest known word, and all of them.
pub fn did_you_mean<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known = Vec::from_iter(std::collections::BTreeSet::from_iter(known));
    let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    match nearest(unknown, known.iter().copied()) {
        Some(nearest) => format!("did you mean {nearest:?}? known: {list}"),
        None => format!("known: {list}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word_is_named_if_it_is_near() {
        assert_eq!(
            did_you_mean("reddis", ["redis", "memory"]),
            "did you mean \"redis\"? known: memory, redis"
        );
        assert_eq!(did_you_mean("etcd", ["redis", "memory"]), "known: memory, redis");
        assert_eq!(did_you_mean("x", []), "known: none");
    }

    #[test]
    fn nearest_word_allows_more_typos_in_a_longer_word() {
        assert_eq!(nearest("potgrs", ["postgres"]), Some("postgres"));
        assert_eq!(nearest("potgr", ["postgres"]), Some("postgres"));
        assert_eq!(nearest("potg", ["postgres"]), None);
        assert_eq!(nearest("zk", ["redis"]), None);
        assert_eq!(nearest("rdi", ["redis"]), Some("redis"));
    }
}
