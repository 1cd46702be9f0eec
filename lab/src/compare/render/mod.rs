//! The view as text: for a terminal, as Markdown, as one page of HTML.

pub(super) mod html;
pub(super) mod markdown;
pub(super) mod terminal;
