/// Text from the store, so that it cannot move the cursor, recolour the terminal or end a line: another program may have
/// written it.
pub fn safe(text: &str) -> String {
    // U+2028 and U+2029 end lines; U+202A to U+202E and U+2066 to U+2069 turn the direction of what follows.
    let odd = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if odd(c) {
            out.extend(c.escape_debug());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_could_move_the_cursor_are_escaped() {
        assert_eq!(safe("é \"x\" 🔒 \\n"), "é \"x\" 🔒 \\n");
        assert_eq!(safe("a\x1b[2J\r\nb\u{202e}"), "a\\u{1b}[2J\\r\\nb\\u{202e}");
    }
}
