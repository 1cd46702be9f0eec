use super::subjects::all;
use leasehold_conformance::{Stop, Subject};

/// The subjects that these words name, in the order of [`all`]; all of them if there is no word. A word is a subject,
/// `postgres-for-update`, or a URL or its scheme, `postgres:`, which names the backend in every mode.
///
/// # Errors
///
/// If a word names no subject: which one.
pub fn named(words: &[String]) -> Result<Vec<Box<dyn Subject>>, Stop> {
    let mut subjects = all();
    for word in words {
        if !subjects.iter().any(|subject| is_named_by(subject.name(), word)) {
            return Err(Stop::skipped(format!("{word:?} names no store that can be started here")));
        }
    }
    if !words.is_empty() {
        subjects.retain(|subject| words.iter().any(|word| is_named_by(subject.name(), word)));
    }
    Ok(subjects)
}

fn is_named_by(subject: &str, word: &str) -> bool {
    let Some((scheme, _)) = word.split_once(':') else { return subject == word };
    match scheme {
        "mariadb" => subject.starts_with("mariadb"),
        "mysql" => subject.starts_with("mysql") || subject.starts_with("mariadb"),
        "postgres" | "postgresql" => subject.starts_with("postgres"),
        "sqlite" => subject.starts_with("sqlite"),
        "zk" | "zookeeper" | "zk+tls" => subject.starts_with("zookeeper"),
        "etcd" | "etcd+tls" => subject.starts_with("etcd"),
        other if other.contains("sentinel") => subject == "redis-sentinel",
        other if other.contains("cluster") => subject == "redis-cluster",
        other if other.contains("redlock") => subject == "redlock",
        other if other.starts_with("redis") || other.starts_with("valkey") => subject == "redis",
        other => subject == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        named(&words).unwrap().iter().map(|subject| subject.name().to_owned()).collect()
    }

    #[test]
    fn word_names_one_subject_and_scheme_names_all_its_modes() {
        assert_eq!(names(&["postgres"]), ["postgres"]);
        assert_eq!(names(&["postgres:"]), ["postgres", "postgres-for-update", "postgres-optimistic"]);
        assert_eq!(names(&["zk://h1/locks", "sqlite"]), ["sqlite", "zookeeper", "zookeeper-ensemble"]);
        assert_eq!(names(&["redis://user@h1"]), ["redis"]);
        assert_eq!(names(&[]).len(), all().len());
    }

    #[test]
    fn every_scheme_of_the_library_names_subjects() {
        for scheme in leasehold::Registry::default().schemes() {
            assert!(!names(&[&format!("{scheme}:")]).is_empty(), "{scheme}");
        }
    }

    #[test]
    fn unknown_store_is_named_in_the_error() {
        let cannot = named(&["redis".to_owned(), "consul".to_owned()]).unwrap_err();
        assert_eq!(cannot.to_string(), "\"consul\" names no store that can be started here");
    }
}
