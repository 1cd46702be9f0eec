use super::options::TableName;
use std::sync::Arc;

/// For how many claims a statement is written. Each size is a text of its own, which SQLite compiles once; a statement
/// for fewer claims is filled up with empty ones, which do nothing.
const SIZES: [usize; 4] = [1, 8, 32, MOST];

/// The most claims that go into one statement: what the keeper renews in one call.
pub(super) const MOST: usize = leasehold_core::MAX_CLAIMS_PER_RENEWAL;

/// A statement for any number of claims. One statement is one transaction, one lock of the file and one wait for the
/// disk, however many claims it is for; and no dropped future can leave it open.
#[derive(Debug)]
pub(super) struct Batch {
    texts: [Arc<str>; SIZES.len()],
}

impl Batch {
    /// A template with `{claims}` for the rows of values: `each` for every claim, and behind them those which are `:1`, `:2` …
    /// in the template, and are for all.
    ///
    /// The many have no numbers. For each parameter the driver asks SQLite for its name, and SQLite looks for that among all
    /// that have one: with some hundred numbers, that took longer than the statement.
    pub(super) fn new(template: &str, table: &TableName, shared: usize, each: usize) -> Self {
        let template = plain(template, table);
        let text = |size| {
            let text = template.replace("{claims}", &rows(size, each));
            let number =
                |text: String, at| text.replace(&format!(":{at}"), &format!("?{}", size * each + at));
            (1..=shared).fold(text, number).into()
        };
        Self { texts: SIZES.map(text) }
    }

    /// With another statement for one claim, which takes the same parameters.
    pub(super) fn with_one(mut self, template: &str, table: &TableName) -> Self {
        self.texts[0] = plain(template, table).into();
        self
    }

    /// The statement for so many claims, and how many empty ones must be added.
    pub(super) fn of(&self, claims: usize) -> (Arc<str>, usize) {
        let at = SIZES.iter().position(|size| *size >= claims);
        let at = at.unwrap_or(SIZES.len() - 1);
        (Arc::clone(&self.texts[at]), SIZES[at].saturating_sub(claims))
    }
}

/// A template without its comments, which are for readers of the file, for this table.
pub(super) fn plain(template: &str, table: &TableName) -> String {
    let lines = template.lines().filter(|line| !line.starts_with("--"));
    let statement: Vec<&str> = lines.collect();
    statement.join("\n").replace("{table}", &table.quoted())
}

/// `(?, ?), (?, ?)`: two rows of two values.
fn rows(count: usize, each: usize) -> String {
    let row = format!("({})", vec!["?"; each].join(", "));
    vec![row.as_str(); count].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_all_is_numbered_behind_the_claims() {
        let batch = Batch::new("VALUES {claims}, :2, :1", &TableName::default(), 2, 2);
        assert_eq!(&*batch.of(1).0, "VALUES (?, ?), ?4, ?3");
        assert!(batch.of(8).0.ends_with("(?, ?), ?18, ?17"));
    }

    #[test]
    fn the_smallest_statement_that_fits_is_taken() {
        let table = TableName::default();
        let batch = Batch::new("-- why\nVALUES {claims} IN {table}", &table, 0, 1);
        let (one, none_left) = batch.of(1);
        assert_eq!((&*one, none_left), ("VALUES (?) IN \"leasehold\"", 0));
        assert_eq!(batch.of(2).1, 6);
        assert_eq!(batch.of(8).1, 0);
        assert_eq!(batch.of(33).1, 95);
        assert_eq!(batch.of(MOST).1, 0);
    }
}
