//! Values in the text of a statement, as the simple protocol has them: nothing stays in a session.

use crate::names::hex;
use crate::server::Value;

/// A value that cannot be read as anything else: a number has digits, and all others are written in hexadecimal.
pub(super) fn literal(value: &Value) -> String {
    let bytea = |bytes: &[u8]| format!("decode('{}', 'hex')", hex(bytes));
    match value {
        Value::Bytes(Some(bytes)) => bytea(bytes),
        Value::Text(Some(text)) => format!("convert_from({}, 'UTF8')", bytea(text.as_bytes())),
        Value::Int(Some(number)) => format!("CAST({number} AS bigint)"),
        Value::Bytes(None) => "CAST(NULL AS bytea)".to_owned(),
        Value::Text(None) => "CAST(NULL AS text)".to_owned(),
        Value::Int(None) => "CAST(NULL AS bigint)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::TableName;
    use crate::postgres::TEXTS;
    use crate::server::Statement;

    fn with_values(text: &str, values: &[Value]) -> String {
        let table = TableName::parse(None, TableName::DEFAULT, 58).unwrap();
        Statement::new(text, &TEXTS, &table).with_values(values, literal)
    }

    #[test]
    fn value_in_a_statement_cannot_end_its_literal() {
        let values = [Value::text("o'k"), Value::int(-7), Value::bytes(*b"\\'"), Value::Bytes(None)];
        assert_eq!(
            with_values("SELECT :1, :2 + :2, :3, :4", &values),
            "SELECT convert_from(decode('6f276b', 'hex'), 'UTF8'), CAST(-7 AS bigint) + CAST(-7 AS bigint), \
             decode('5c27', 'hex'), CAST(NULL AS bytea)"
        );
        let eleven: Vec<Value> = (1..=11).map(Value::int).collect();
        assert_eq!(with_values(":11:1", &eleven), "CAST(11 AS bigint)CAST(1 AS bigint)");
    }
}
