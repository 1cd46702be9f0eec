//! A configuration inside an application's own, through serde.

use super::environment::Environment;
use super::layer::{Layer, Layers, Written};
use super::store::Store;
use super::tree::{Node, Table, Value};
use super::{Config, ConfigSource, schema};
use leasehold_core::{Error, Result};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A URL, or a table with the keys of a `[profile.NAME]`. `${VAR}`, `password_file` and `password_env` are looked up at
/// once, in the environment of this process. No configuration file is looked for, and no `LEASEHOLD_` variable counts.
impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let config = match Value::deserialize(deserializer)? {
            Value::Text(url) => of_url(&url),
            Value::Table(table) => of_table(table),
            other => Err(given(other).wrong_kind("it", "make it a store URL, or a table with one")),
        };
        config.map_err(|error| match error.help() {
            Some(help) => D::Error::custom(format_args!("{error}; {help}")),
            None => D::Error::custom(error),
        })
    }
}

fn of_url(url: &str) -> Result<Config> {
    let written = Written::new(url, ConfigSource::Given).expanded("url", &Environment::of_this_process())?;
    Store::of_url(&written).map(Config::of_store)
}

fn of_table(table: Table) -> Result<Config> {
    let environment = Environment::of_this_process();
    let profile = schema::profile(table)?.expanded(&environment)?;
    let none = Layer::default();
    let layers = Layers { given: &none, environment: &none, profile: &profile, defaults: &none };
    let missing = || Error::invalid("url", "it is missing", "add one: redis://host:6379/0");
    let store = Store::of_url(profile.get("url").ok_or_else(missing)?)?;
    Config::assemble(store, &layers, &environment)
}

fn given(value: Value) -> Node {
    Node { value, source: ConfigSource::Given }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Takes whatever stands there; what is wrong with it is said later, in the same words as of a file.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a store URL, or a table with one")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_bool<E>(self, answer: bool) -> Result<Value, E> {
        Ok(Value::of_boolean(answer))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Scalar(number.to_string(), "an integer"))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Scalar(number.to_string(), "an integer"))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Scalar(number.to_string(), "a float"))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Other("nothing"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(Value::Other("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Table::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if table.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom(format_args!("{key} is there twice; leave one of them out")));
            }
            table.push((key, given(value)));
        }
        Ok(Value::Table(table))
    }
}
