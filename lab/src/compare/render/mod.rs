//! The findings as text: for a terminal; and by templates, as Markdown for a pull request or a wiki, and as one page of HTML that needs
//! nothing else: no script, no request, and its own style.
//!
//! Servers and users have said what stands in a report: the templates escape all of it.

pub(super) mod terminal;

use super::findings::Findings;
use leasehold_console::Failure;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value};
use std::borrow::Cow;

const MARKDOWN: AutoEscape = AutoEscape::Custom(Cow::Borrowed("markdown"));

pub(super) fn html(findings: &Findings) -> Result<String, Failure> {
    render("report.html", findings)
}

pub(super) fn markdown(findings: &Findings) -> Result<String, Failure> {
    render("report.md", findings)
}

fn render(name: &str, findings: &Findings) -> Result<String, Failure> {
    let failed = |error: Error| Failure::internal("cannot render the report", error);
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
        .set_auto_escape_callback(|name| if name.ends_with(".md") { MARKDOWN } else { AutoEscape::Html });
    environment.set_formatter(format);
    environment.add_global("style", Value::from_safe_string(include_str!("page.css").to_owned()));
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(failed)?);
    environment.add_template("report.html", include_str!("report.html")).map_err(failed)?;
    environment.add_template("report.md", include_str!("report.md")).map_err(failed)?;
    let template = environment.get_template(name).map_err(failed)?;
    template.render(Value::from(Serde(findings))).map_err(failed)
}

fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if *state.auto_escape() == MARKDOWN && !value.is_safe() {
        return Ok(out.write_str(&escaped(&value.to_string()))?);
    }
    minijinja::escape_formatter(out, state, value)
}

/// Text that is text in Markdown, whatever stands in it.
fn escaped(text: &str) -> String {
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
        assert_eq!(escaped("a|b\n<script>*x*"), "a\\|b &lt;script&gt;\\*x\\*");
    }
}
