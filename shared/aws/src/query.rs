//! Parameters in the query of a URL.
//!
//! **Every id travels in the query, never in the path.** An HTTP API of API Gateway decodes a path before it matches a
//! route, and ends it at a decoded question mark. So an id with `/` or `?` in a path reaches no route, or another one. The
//! query arrives as it was sent.

use crate::problem::{FieldError, Problem};

/// Parses a query in which only these parameters may occur, each at most once. Returns their values, and all errors.
#[must_use]
pub fn parameters<const N: usize>(query: &str, names: [&str; N]) -> ([Option<String>; N], Vec<FieldError>) {
    let mut errors = Vec::new();
    let mut values: [Option<String>; N] = std::array::from_fn(|_| None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let known = names.iter().zip(&mut values).find(|(known, _)| **known == name);
        match known {
            None => {
                let name: String = name.chars().take(64).collect();
                errors.push(FieldError::new(
                    name,
                    format!("is not a known parameter; known parameters are {}", names.join(", ")),
                ));
            }
            Some((name, Some(_))) => errors.push(FieldError::new(*name, "must be given only once")),
            Some((_, entry @ None)) => *entry = Some(value.into_owned()),
        }
    }
    (values, errors)
}

/// Parses a query that consists of this one parameter.
///
/// # Errors
/// Names every parameter that is missing, empty, repeated or not known.
pub fn only_parameter(query: &str, name: &str) -> Result<String, Problem> {
    let ([value], mut errors) = parameters(query, [name]);
    let value = value.unwrap_or_default();
    if value.is_empty() {
        errors.push(FieldError::new(name, "is missing; it is a parameter of the query"));
    }
    if errors.is_empty() { Ok(value) } else { Err(Problem::invalid(errors)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_decoded_once_and_may_hold_anything() {
        let check = |query: &str, id: &str| assert_eq!(only_parameter(query, "id").unwrap(), id, "{query}");
        check("id=call-1", "call-1");
        check("id=switchhook:retell:c1/c1/deadline/5", "switchhook:retell:c1/c1/deadline/5");
        check("id=switchhook%3Aa%2Fb%3Fc%23d%25e%26f%2Bg", "switchhook:a/b?c#d%e&f+g");
        check("id=a%252Fb", "a%2Fb");
        check("id=a+b%20c", "a b c");
        check("id=a=b", "a=b");
        check("id=%C3%A4", "ä");
    }

    #[test]
    fn every_error_is_reported() {
        let check = |query: &str, expected: &[&str]| {
            let errors = only_parameter(query, "id").unwrap_err().errors;
            let found: Vec<String> = errors.iter().map(|error| format!("{} {}", error.field, error.message)).collect();
            assert_eq!(found, expected, "{query}");
        };
        let missing = "id is missing; it is a parameter of the query";
        check("", &[missing]);
        check("id=", &[missing]);
        check("id", &[missing]);
        check("id=a&id=b", &["id must be given only once"]);
        check("id=a&jd=b", &["jd is not a known parameter; known parameters are id"]);
        check("call=a", &["call is not a known parameter; known parameters are id", missing]);
    }
}
