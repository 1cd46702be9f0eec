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
    /// A template with `{claims}` for the rows of values; `shared` parameters come first, then `each` for every claim.
    pub(super) fn new(template: &str, table: &TableName, shared: usize, each: usize) -> Self {
        let template = plain(template, table);
        let text = |size| template.replace("{claims}", &rows(size, shared, each)).into();
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

/// `(?4, ?5), (?6, ?7)`: two rows of two values, behind three shared ones.
fn rows(count: usize, shared: usize, each: usize) -> String {
    let row = |row: usize| {
        let first = shared + row * each + 1;
        let values: Vec<String> = (first..first + each).map(|number| format!("?{number}")).collect();
        format!("({})", values.join(", "))
    };
    (0..count).map(row).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered_behind_the_shared_ones() {
        assert_eq!(rows(2, 3, 2), "(?4, ?5), (?6, ?7)");
    }

    #[test]
    fn the_smallest_statement_that_fits_is_taken() {
        let table = TableName::default();
        let batch = Batch::new("-- why\nVALUES {claims} IN {table}", &table, 0, 1);
        let (one, none_left) = batch.of(1);
        assert_eq!((&*one, none_left), ("VALUES (?1) IN \"leasehold\"", 0));
        assert_eq!(batch.of(2).1, 6);
        assert_eq!(batch.of(8).1, 0);
        assert_eq!(batch.of(33).1, 95);
        assert_eq!(batch.of(MOST).1, 0);
    }
}
