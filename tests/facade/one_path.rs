//! Everything public in the core is public here, under one path: an application needs this crate alone, and its readers
//! meet each type by one name.

use std::collections::BTreeMap;

const CORE: &str = include_str!("../../core/src/lib.rs");
const FACADE: &str = include_str!("../../src/lib.rs");

/// The names in the `pub use` statements whose path begins so, and the number of times that each is there.
fn exported(source: &str, from: &str) -> BTreeMap<String, usize> {
    let mut names = BTreeMap::new();
    for statement in source.split("pub use ").skip(1) {
        let Some((path, _)) = statement.split_once(';').filter(|(path, _)| path.starts_with(from)) else {
            continue;
        };
        let list = path.rsplit("::").next().unwrap().trim_matches(['{', '}']);
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            *names.entry(name.to_owned()).or_default() += 1;
        }
    }
    names
}

#[test]
fn public_name_of_the_core_has_one_path_here() {
    let core = exported(CORE, "");
    assert!(core.len() > 50, "the core's names were found: {}", core.len());
    let mut here = exported(FACADE, "leasehold_core");
    // The one public module of the core has one name in it.
    assert_eq!(here.remove("MemoryBackend"), Some(1));
    assert_eq!(here, core.keys().map(|name| (name.clone(), 1)).collect());
}
