//! Text by templates, in which all that servers and users have said is escaped.

use leasehold_console::Failure;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value};
use std::borrow::Cow;

const MARKDOWN: AutoEscape = AutoEscape::Custom(Cow::Borrowed("markdown"));

/// Renders a template, escaped as the end of its name says: for Markdown, or for HTML and XML.
pub(crate) fn render(name: &str, template: &str, values: Value) -> Result<String, Failure> {
    let failed = |error: Error| Failure::internal("cannot render the result", error);
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let escape = if name.ends_with(".md") { MARKDOWN } else { AutoEscape::Html };
    environment.set_auto_escape_callback(move |_| escape.clone());
    environment.set_formatter(format);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(failed)?);
    environment.render_named_str(name, template, values).map_err(failed)
}

/// Text without characters that XML cannot say at all, such as an escape of the terminal: they are shown as they are written in Rust.
pub(crate) fn text(of: &str) -> String {
    let is_plain = |c: char| c == '\n' || !(c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}'));
    of.chars().map(|c| if is_plain(c) { c.to_string() } else { c.escape_debug().to_string() }).collect()
}

fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if *state.auto_escape() == MARKDOWN && !value.is_safe() {
        return Ok(out.write_str(&in_markdown(&value.to_string()))?);
    }
    minijinja::escape_formatter(out, state, value)
}

/// Text that is text in Markdown, whatever stands in it.
fn in_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_markdown_is_escaped() {
        assert_eq!(in_markdown("a|b\n<script>*x*"), "a\\|b &lt;script&gt;\\*x\\*");
    }
}
