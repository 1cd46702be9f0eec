//! The table of `ls`, as wide as its terminal.
//!
//! A name and a token are for pasting, so neither is cut or broken. In a terminal that is too narrow for the rows, DOING is cut first;
//! if that is not enough, a row takes two lines, with its name alone on the first.

use leasehold_console::{cut, width};

/// Name, holder, what it does, for how long, until when, and the token.
pub(super) type Row = [String; 6];

const HEADER: [&str; 6] = ["NAME", "HOLDER", "DOING", "HELD", "ENDS IN", "TOKEN"];
const DOING: usize = 2;
/// Fewer columns of DOING than that tell nothing.
const LEAST_DOING: usize = 8;
/// The columns between two cells.
const GAP: &str = "  ";
/// What stands before the second line of a row.
const INDENT: &str = "    ";

/// The lines of a table. Without a terminal a row is one line.
pub(super) fn table(rows: Vec<Row>, columns: Option<usize>) -> String {
    let mut rows = [vec![HEADER.map(str::to_owned)], rows].concat();
    let one_line = aligned(&rows, [false, false, false, true, true, true]);
    let Some(columns) = columns else { return one_line.join("\n") };
    let excess = widest(one_line.iter()).saturating_sub(columns);
    if excess == 0 {
        return one_line.join("\n");
    }
    let doing = widest(rows.iter().map(|row| &row[DOING])).saturating_sub(excess);
    if doing < LEAST_DOING {
        return in_two_lines(&rows, columns);
    }
    for row in &mut rows {
        row[DOING] = cut(&row[DOING], doing);
    }
    aligned(&rows, [false, false, false, true, true, true]).join("\n")
}

/// On the second line, what may be long comes last and is cut.
fn in_two_lines(rows: &[Row], columns: usize) -> String {
    let details: Vec<[String; 5]> = rows
        .iter()
        .map(|[_, holder, doing, held, ends_in, token]| {
            [held, ends_in, token, holder, doing].map(Clone::clone)
        })
        .collect();
    let details = aligned(&details, [true, true, true, false, false]);
    let lines = rows.iter().zip(details).flat_map(|(row, details)| {
        let is_heading = row[DOING..].iter().all(String::is_empty);
        let details = if is_heading { &row[1] } else { &details };
        [row[0].clone(), cut(&format!("{INDENT}{details}"), columns)]
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The rows as lines, with each column as wide as its widest cell.
fn aligned<const N: usize>(rows: &[[String; N]], is_right: [bool; N]) -> Vec<String> {
    let widths: [usize; N] = std::array::from_fn(|column| widest(rows.iter().map(|row| &row[column])));
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).zip(is_right).map(|((cell, columns), is_right)| {
            let blanks = " ".repeat(columns - width(cell));
            if is_right { blanks + cell } else { format!("{cell}{blanks}") }
        });
        cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn widest<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| width(text)).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "1795915545540317";

    fn rows(name: &str) -> Vec<Row> {
        let hold = [name, "ada@web-1:4711", "report.sh --all-of-it", "1.6s", "28s", TOKEN];
        let heading = ["pages", "1 reader", "", "", "", ""];
        [hold, heading, ["  reader", "ada@web-1:4812", "-", "1.6s", "28s", TOKEN]]
            .map(|row| row.map(str::to_owned))
            .to_vec()
    }

    #[test]
    fn row_that_fits_stands_on_one_line() {
        let lines = table(rows("日本"), Some(80));
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(
            lines[0],
            "NAME      HOLDER          DOING                  HELD  ENDS IN             TOKEN"
        );
        assert_eq!(
            lines[1],
            format!("日本      ada@web-1:4711  report.sh --all-of-it  1.6s      28s  {TOKEN}")
        );
        assert_eq!(lines[2], "pages     1 reader");
    }

    #[test]
    fn doing_is_cut_before_anything_else() {
        let lines = table(rows("a name of some size"), Some(80));
        for (line, doing) in lines.lines().zip(["DOING", "report.sh…", "", "-"]) {
            assert!(width(line) <= 80 && line.contains(doing), "{lines}");
        }
        assert!(lines.contains(TOKEN) && lines.contains("a name of some size  ada@web-1:4711  "), "{lines}");
    }

    #[test]
    fn row_too_wide_without_doing_takes_two_lines_with_whole_name_and_token() {
        let long = "n".repeat(80);
        let lines = table(rows(&long), Some(80));
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[..2], ["NAME", "    HELD  ENDS IN             TOKEN  HOLDER          DOING"]);
        assert_eq!(lines[2], long);
        assert_eq!(lines[3], format!("    1.6s      28s  {TOKEN}  ada@web-1:4711  report.sh --all-of-it"));
        assert_eq!(lines[4..6], ["pages", "    1 reader"]);
        assert_eq!((lines.len(), lines[6]), (8, "  reader"));
    }
}
