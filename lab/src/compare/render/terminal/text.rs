//! Lines of text, as wide as the terminal at most.

use crate::format::Tone;
use anstyle::{AnsiColor, Effects, Style};
use leasehold_console::safe;
use std::io::{self, Write};

pub(super) const BOLD: Style = Style::new().effects(Effects::BOLD);

pub(super) fn heading(out: &mut impl Write, title: &str) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{}{BOLD:#}", title.to_uppercase())
}

pub(super) fn paragraph(out: &mut impl Write, text: &str, indent: usize, width: usize) -> io::Result<()> {
    for (index, line) in wrapped(&safe(text), width.saturating_sub(indent)).iter().enumerate() {
        writeln!(out, "{:indent$}{line}", "", indent = if index == 0 { 0 } else { indent })?;
    }
    Ok(())
}

/// The text in lines of so many characters at most, broken between words. A word that is longer has a line of its own.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

pub(super) fn style(tone: Tone) -> Style {
    match tone {
        Tone::Good => AnsiColor::Green.on_default(),
        Tone::Careful => AnsiColor::Yellow.on_default(),
        Tone::Bad => AnsiColor::Red.on_default().bold(),
        Tone::Muted => Style::new().effects(Effects::DIMMED),
        Tone::Plain => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("µµµ µµµ", 7), ["µµµ µµµ"]);
        assert_eq!(wrapped("a longerword b", 4), ["a", "longerword", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
