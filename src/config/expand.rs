//! `${VAR}` in the values of a file.
//!
//! Only with braces, unlike a shell and the crates that imitate one: passwords have a `$` in them now and then, and must
//! not change their meaning.

use leasehold_core::{Error, Result};

/// Puts variables in: `${VAR}` is its value, `${VAR:-x}` is `x` if it is unset or empty, `$${` is a plain `${`.
///
/// What is put in is not looked at again. Errors show no value, and no name that is not one.
pub(super) fn expand(
    field: &str,
    text: &str,
    lookup: impl Fn(&str) -> Result<Option<String>>,
) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        let Some((reference, after)) = after.split_once('}') else {
            let fix = "close it, or write $${ for a plain ${";
            return Err(Error::invalid(field, "it has a ${ that no } closes", fix));
        };
        out.push_str(before);
        out.push_str(&value_of(field, reference, &lookup)?);
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn value_of(field: &str, reference: &str, lookup: impl Fn(&str) -> Result<Option<String>>) -> Result<String> {
    let (variable, default) = match reference.split_once(":-") {
        Some((variable, default)) => (variable, Some(default)),
        None => (reference, None),
    };
    if default.is_some_and(|default| default.contains("${")) {
        let fix = "write a plain text behind the :-";
        return Err(Error::invalid(field, "there is a ${ within the default of another", fix));
    }
    if !is_name(variable) {
        let fix = "write ${VAR} or ${VAR:-default}, and $${ for a plain ${";
        return Err(Error::invalid(field, "there is no variable name after a ${", fix));
    }
    match (lookup(variable)?, default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Error::invalid(
            field,
            format_args!("the environment has no variable {variable}"),
            format!("set it, or write ${{{variable}:-default}}"),
        )),
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String> {
        expand("url", text, |variable| {
            Ok(match variable {
                "HOST" => Some("h:1".to_owned()),
                "ODD" => Some("${HOST}".to_owned()),
                "EMPTY" => Some(String::new()),
                _ => None,
            })
        })
    }

    #[test]
    fn variables_are_put_in() {
        let cases = [
            ("redis://${HOST}/0", "redis://h:1/0"),
            ("${HOST}${HOST}", "h:1h:1"),
            ("${NO:-x}${HOST:-x}", "xh:1"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${NO:-}", ""),
            ("${NO:-a:-b}", "a:-b"),
            ("${ODD}", "${HOST}"),
            ("pa$$word $HOST $ 1$", "pa$$word $HOST $ 1$"),
            ("$${HOST}", "${HOST}"),
            ("$$${HOST}", "$${HOST}"),
            ("é${HOST}é", "éh:1é"),
        ];
        for (text, expected) in cases {
            assert_eq!(expanded(text).unwrap(), expected, "{text}");
        }
        for nested in ["${NO:-${HOST}}", "${HOST:-${NO}}/"] {
            let error = expanded(nested).unwrap_err();
            assert!(error.to_string().contains("within the default of another"), "{nested}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_put_in_is_said_without_its_text() {
        let cases = [
            ("s3cret${NO}", "the environment has no variable NO; set it, or write ${NO:-default}"),
            ("s3cret${HOST", "it has a ${ that no } closes; close it, or write $${ for a plain ${"),
            (
                "${s3-cret}",
                "there is no variable name after a ${; write ${VAR} or ${VAR:-default}, and $${ for a plain ${",
            ),
            (
                "${}",
                "there is no variable name after a ${; write ${VAR} or ${VAR:-default}, and $${ for a plain ${",
            ),
        ];
        for (text, expected) in cases {
            let error = expanded(text).unwrap_err();
            let said = format!("{error}; {}", error.help().unwrap());
            assert_eq!(said, format!("invalid url: {expected}"), "{text}");
        }
    }
}
