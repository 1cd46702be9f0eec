//! One page that needs nothing else: no script, no request, and its own style.
//!
//! What stands in the page was said by servers and by the user: the template escapes all of it. The charts are written
//! here, and escape their labels themselves.

mod scale;
mod svg;

use crate::compare::rules::Card;
use crate::compare::view::{Section, View};
use crate::format::Tone;
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
    parts: Vec<SectionPart<'a>>,
    cards: Vec<CardPart<'a>>,
    style: &'static str,
}

/// A section, and its charts as SVG.
#[derive(Serialize)]
struct SectionPart<'a> {
    #[serde(flatten)]
    section: &'a Section,
    charts: Vec<String>,
}

#[derive(Serialize)]
struct CardPart<'a> {
    #[serde(flatten)]
    card: &'a Card,
    mark: &'static str,
    words: &'static str,
    tone: Tone,
}

pub(crate) fn render(view: &View) -> Result<String, Failure> {
    let page = Page {
        view,
        parts: view.sections.iter().map(SectionPart::of).collect(),
        cards: view.cards.iter().map(CardPart::of).collect(),
        style: STYLE,
    };
    let failed = |error: minijinja::Error| Failure::internal("cannot render the page", error);
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(failed)?);
    environment.add_template("page.html", PAGE).map_err(failed)?;
    let template = environment.get_template("page.html").map_err(failed)?;
    template.render(Value::from(Serde(&page))).map_err(failed)
}

impl<'a> SectionPart<'a> {
    fn of(section: &'a Section) -> Self {
        let charts = section.charts.iter().enumerate();
        Self { section, charts: charts.map(|(number, chart)| svg::draw(section.id, number, chart)).collect() }
    }
}

impl<'a> CardPart<'a> {
    fn of(card: &'a Card) -> Self {
        Self { card, mark: card.standing.mark(), words: card.standing.words(), tone: card.tone() }
    }
}
