//! One page that needs nothing else: no script, no request, and its own style.
//!
//! What stands in the page was said by servers and by the user: the template escapes all of it. The charts are written
//! here, and escape their labels themselves.

mod scale;
mod svg;

use crate::compare::view::{Section, View};
use leasehold_console::Failure;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Serialize;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// What the template sees.
#[derive(Serialize)]
struct Page<'a> {
    view: &'a View,
    /// Each with its charts as SVG.
    sections: Vec<(&'a Section, Vec<String>)>,
    style: &'static str,
}

pub(crate) fn render(view: &View) -> Result<String, Failure> {
    let with_charts = |section: &Section| section.charts.iter().map(svg::draw).collect();
    let sections = view.sections.iter().map(|section| (section, with_charts(section))).collect();
    let page = Page { view, sections, style: STYLE };
    let failed = |error: minijinja::Error| Failure::internal("cannot render the page", error);
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(failed)?);
    environment.add_template("page.html", PAGE).map_err(failed)?;
    let template = environment.get_template("page.html").map_err(failed)?;
    template.render(Value::from(Serde(&page))).map_err(failed)
}
