//! A configuration inside an application's own, through serde.

use super::environment::Environment;
use super::layers::{Layer, SourcedText};
use super::schema::{Content, Node, profile};
use super::{Config, ConfigSource};
use leasehold_core::Result;
use serde::de::{Deserialize, Deserializer, Error as _};

/// A URL, or a table with the keys of a `[profile.NAME]`. `${VAR}`, `password_file` and `password_env` are looked up in the
/// environment of this process. No configuration file is looked for, and no `LEASEHOLD_` variable counts.
impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let content = Option::<toml::Value>::deserialize(deserializer)?;
        let config = match content.map_or(Content::Other("nothing"), content_of) {
            Content::Text(url) => of_url(&url),
            Content::Table(table) => of_table(table),
            other => Err(given(other).wrong_kind("it", "make it a store URL, or a table with one")),
        };
        config.map_err(|error| match error.help() {
            Some(help) => D::Error::custom(format_args!("{error}; {help}")),
            None => D::Error::custom(error),
        })
    }
}

fn of_url(url: &str) -> Result<Config> {
    let value = SourcedText::new(url, ConfigSource::Given);
    Config::of_url(&Environment::of_this_process().expanded("url", &value)?)
}

fn of_table(table: Vec<(String, Node)>) -> Result<Config> {
    let environment = Environment::of_this_process();
    let layer = environment.expand_all(&profile(table)?)?;
    Config::assemble(None, [&Layer::new(), &layer, &Layer::new()], &environment)
}

fn given(content: Content) -> Node {
    Node { content, source: ConfigSource::Given }
}

fn content_of(value: toml::Value) -> Content {
    match value {
        toml::Value::String(text) => Content::Text(text),
        toml::Value::Integer(number) => Content::Scalar(number.to_string(), "an integer"),
        toml::Value::Float(number) => Content::Scalar(number.to_string(), "a float"),
        toml::Value::Boolean(value) => Content::boolean(value),
        toml::Value::Table(table) => {
            Content::Table(table.into_iter().map(|(key, value)| (key, given(content_of(value)))).collect())
        }
        toml::Value::Datetime(_) => Content::Other("a date"),
        toml::Value::Array(_) => Content::Other("an array"),
    }
}
