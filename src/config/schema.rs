//! The keys and tables of a configuration file. An unknown key is an error: a mistyped `tll` must not pass in silence.
//! TOML is read from the parser's own tables and not through serde, so that every value knows its line. The parser's
//! errors are not chained, because they quote the file, which may have passwords in it.

use super::entry::ConfigSource;
use super::layers::{Layer, SETTINGS, SourcedText, check_ends, is_own, own_keys};
use leasehold_core::{Error, ErrorKind, Result};
use leasehold_store_url::did_you_mean;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

const TOP_KEYS: [&str; 4] = ["default", "defaults", "profile", "require_store"];

/// The values of a whole file, with their variables not yet replaced.
#[derive(Default)]
pub(super) struct Contents {
    /// The name of the profile that counts if no other is named.
    pub(super) default: Option<SourcedText>,
    pub(super) require_store: Option<SourcedText>,
    pub(super) defaults: Layer,
    pub(super) profiles: BTreeMap<String, Layer>,
}

/// A value in any format, and its source.
pub(super) struct Node {
    pub(super) content: Content,
    pub(super) source: ConfigSource,
}

pub(super) enum Content {
    Text(String),
    /// A number or a boolean: its text in a URL, and its kind.
    Scalar(String, Kind),
    /// The entries in the order of the file, because the first mistake is the one that is reported.
    Table(Vec<(String, Node)>),
    Other(Kind),
}

/// The kind of a value, with its article: `an integer`.
type Kind = &'static str;

impl Contents {
    pub(super) fn read(path: &Arc<Path>, text: &str) -> Result<Self> {
        let source = |at| source_of(path, text, at);
        let root = DeTable::parse(text).map_err(|error| not_toml(&error, text, source))?;
        let mut contents = Self::default();
        for (key, node) in entries(root.get_ref(), &source) {
            match key.as_str() {
                "default" if matches!(node.content, Content::Table(_)) => {
                    return Err(node.wrong_kind(&key, "call the table [defaults]"));
                }
                "default" => contents.default = Some(node.text(&key, "prod")?),
                "require_store" => match node.content {
                    Content::Text(flag) | Content::Scalar(flag, _) => {
                        contents.require_store = Some(SourcedText::new(flag, node.source));
                    }
                    _ => return Err(node.wrong_kind(&key, "write true or false")),
                },
                "defaults" => contents.defaults = defaults(node.table(&key)?)?,
                "profile" => contents.profiles = profiles(node.table(&key)?)?,
                _ => return Err(unknown_at_top(&key, &node)),
            }
        }
        Ok(contents)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.default.is_none()
            && self.require_store.is_none()
            && self.defaults.is_empty()
            && self.profiles.is_empty()
    }
}

/// The values of a profile. A key that is not in [`own_keys`] is a parameter of the store, which only its backend knows.
pub(super) fn profile(table: Vec<(String, Node)>) -> Result<Layer> {
    let mut layer = Layer::new();
    for (key, node) in table {
        if let Some((own, example)) = own_keys().find(|(own, _)| *own == key) {
            layer.insert(key, node.text(own, example)?);
        } else if key == "password" {
            let fix = "name its file with password_file, or its variable with password_env";
            return Err(node.wrong("a password does not stand here".to_owned(), fix));
        } else {
            parameter(&mut layer, key, node)?;
        }
    }
    Ok(layer)
}

fn defaults(table: Vec<(String, Node)>) -> Result<Layer> {
    let mut layer = Layer::new();
    for (key, node) in table {
        let Some((_, example)) = SETTINGS.iter().find(|(known, _)| *known == key) else {
            let help = did_you_mean(&key, SETTINGS.map(|(known, _)| known));
            return Err(node.wrong(format!("unknown key {key:?} in [defaults]"), help));
        };
        let value = node.text(&key, example)?;
        layer.insert(key, value);
    }
    Ok(layer)
}

fn profiles(table: Vec<(String, Node)>) -> Result<BTreeMap<String, Layer>> {
    let profiles = table.into_iter().map(|(name, node)| {
        let source = node.source.clone();
        check_ends("profile", &name).map_err(|error| source.blame(error))?;
        let layer = profile(node.table(&format!("profile.{name}"))?)?;
        if !layer.contains_key("url") {
            let no_url = Error::new(ErrorKind::Misconfigured, format!("[profile.{name}] has no url"));
            return Err(source.blame(no_url.with_help("give it one: url = \"redis://host:6379/0\"")));
        }
        Ok((name, layer))
    });
    profiles.collect()
}

/// Adds a parameter of the store: `tls = { ca = "x" }` is `tls_ca`.
fn parameter(layer: &mut Layer, key: String, node: Node) -> Result<()> {
    match node.content {
        Content::Table(table) => {
            let mut inner = table.into_iter();
            return inner.try_for_each(|(inner, node)| parameter(layer, format!("{key}_{inner}"), node));
        }
        Content::Other(_) => return Err(node.wrong_kind(&key, "make it a string, a number or a table")),
        _ if layer.contains_key(&key) => {
            return Err(node.wrong(format!("{key} is there twice"), "leave one of them out"));
        }
        Content::Text(text) | Content::Scalar(text, _) => {
            layer.insert(key, SourcedText::new(text, node.source))
        }
    };
    Ok(())
}

fn unknown_at_top(key: &str, node: &Node) -> Error {
    let help = if SETTINGS.iter().any(|(known, _)| *known == key) {
        "put it under [defaults], or under a [profile.NAME]".to_owned()
    } else if is_own(key) {
        "put it under a [profile.NAME]".to_owned()
    } else {
        did_you_mean(key, TOP_KEYS)
    };
    node.wrong(format!("unknown key {key:?}"), help)
}

impl Content {
    /// A boolean, in the words that the parameters of a URL take.
    pub(super) fn boolean(value: bool) -> Self {
        Self::Scalar(if value { "yes" } else { "no" }.to_owned(), "a boolean")
    }
}

impl Node {
    fn text(self, key: &str, example: &str) -> Result<SourcedText> {
        match self.content {
            Content::Text(text) => Ok(SourcedText::new(text, self.source)),
            _ => Err(self.wrong_kind(key, format!("write it in quotes: {key} = {example:?}"))),
        }
    }

    fn table(self, key: &str) -> Result<Vec<(String, Self)>> {
        match self.content {
            Content::Table(table) => Ok(table),
            _ => Err(self.wrong_kind(key, "make it a table")),
        }
    }

    /// The error of a value of the wrong kind, without the value.
    pub(super) fn wrong_kind(&self, key: &str, fix: impl Into<Cow<'static, str>>) -> Error {
        let kind = match &self.content {
            Content::Text(_) => "a string",
            Content::Scalar(_, kind) | Content::Other(kind) => kind,
            Content::Table(_) => "a table",
        };
        self.wrong(format!("{key} is {kind}"), fix)
    }

    fn wrong(&self, problem: String, fix: impl Into<Cow<'static, str>>) -> Error {
        self.source.blame(Error::new(ErrorKind::Invalid, problem).with_help(fix))
    }
}

/// The entries of a TOML table, in the order of the file.
fn entries(table: &DeTable<'_>, source: &impl Fn(usize) -> ConfigSource) -> Vec<(String, Node)> {
    let mut sorted: Vec<_> = table.iter().collect();
    sorted.sort_by_key(|(key, _)| key.span().start);
    let mut nodes = Vec::new();
    for (key, value) in sorted {
        let content = match value.get_ref() {
            DeValue::String(text) => Content::Text(text.to_string()),
            DeValue::Integer(number) => Content::Scalar(number.to_string(), "an integer"),
            DeValue::Float(number) => Content::Scalar(number.to_string(), "a float"),
            DeValue::Boolean(value) => Content::boolean(*value),
            DeValue::Table(table) => Content::Table(entries(table, source)),
            DeValue::Datetime(_) => Content::Other("a date"),
            DeValue::Array(_) => Content::Other("an array"),
        };
        nodes.push((key.get_ref().to_string(), Node { content, source: source(key.span().start) }));
    }
    nodes
}

fn source_of(path: &Arc<Path>, text: &str, at: usize) -> ConfigSource {
    let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    ConfigSource::File { path: Arc::clone(path), line }
}

fn not_toml(error: &toml::de::Error, text: &str, source: impl Fn(usize) -> ConfigSource) -> Error {
    let span = error.span().unwrap_or(text.len()..text.len());
    let source = source(span.start);
    let (problem, help) = match (error.message(), text.get(span)) {
        ("duplicate key", Some(key)) => (format!("{key} is there twice"), "leave one of them out"),
        (message, _) => (format!("it is not TOML: {message}"), "fix this line, or the one before it"),
    };
    Error::new(ErrorKind::Misconfigured, problem).with_help(help).context(source)
}
