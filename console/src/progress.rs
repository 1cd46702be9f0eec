//! A line at a terminal that is rewritten while something lasts.

use rustix::termios::tcgetwinsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The columns that the line takes; 0 while there is none. A process has one terminal to speak to.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// The columns of a terminal that does not tell them.
const COLUMNS: usize = 80;

/// What a terminal is sent to replace the line by this text, cut to the width of the terminal.
pub(crate) fn rewritten(text: &str) -> String {
    let columns = tcgetwinsize(rustix::stdio::stderr()).map_or(0, |size| usize::from(size.ws_col));
    let columns = if columns == 0 { COLUMNS } else { columns };
    let (line, width) = line(text, columns, SHOWN.load(Ordering::Relaxed));
    SHOWN.store(width, Ordering::Relaxed);
    line
}

/// What a terminal is sent to remove the line: nothing if there is none. By blanks, which every terminal knows.
pub fn erase_progress() -> String {
    match SHOWN.swap(0, Ordering::Relaxed) {
        0 => String::new(),
        columns => format!("\r{:columns$}\r", ""),
    }
}

/// The text with blanks over what is left of the line before, and its own width. The last column stays free: some terminals begin a
/// new line behind it.
fn line(text: &str, columns: usize, before: usize) -> (String, usize) {
    let text = cut(text, columns.saturating_sub(1));
    let width = width(&text);
    let blanks = before.saturating_sub(width);
    (format!("\r{text}{:blanks$}", ""), width)
}

/// The columns that a text takes at a terminal.
pub fn width(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// The text, or as much of it as fits these columns, with a mark of what is left out.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while width(&kept) + 1 > columns && kept.pop().is_some() {}
    if columns == 0 { String::new() } else { kept + "…" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_the_columns_that_it_takes() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".to_owned(), String::new()));
    }

    #[test]
    fn shorter_line_covers_the_longer_one_before() {
        assert_eq!(line("abc", 80, 0), ("\rabc".to_owned(), 3));
        assert_eq!(line("abc", 80, 5), ("\rabc  ".to_owned(), 3));
        assert_eq!(line("abcdef", 5, 2), ("\rabc…".to_owned(), 4));
    }
}
