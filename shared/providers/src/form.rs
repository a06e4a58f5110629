//! Form-encoded parameters.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;
use serde::de::value::{Error, MapDeserializer};
use serde_json::{Map, Value};

/// Content type of a form.
pub(crate) const CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

/// Decoded parameters: names in byte order, and for each name its distinct values in byte order.
///
/// Twilio's signature covers neither the order of the parameters nor their repetition, and Plivo's not their order. So neither is kept.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Form(BTreeMap<String, BTreeSet<String>>);

/// Most parameters of a form. A form must be parsed before its signature can be checked, so an attacker could use up memory: even
/// an empty parameter takes some dozens of bytes. The providers' own callbacks have some dozens of parameters.
const PARAMETERS_MAX: usize = 1_024;

/// Most bytes of a form. Each key makes a signature of it for several forms of the URL, so a sender without a key could use up the CPU
/// time. The providers' own callbacks have some KB.
const FORM_BYTES_MAX: usize = 256 * 1_024;

/// True if a form has more parameters or bytes than a provider sends.
pub(crate) fn is_too_large(body: &[u8]) -> bool {
    body.len() > FORM_BYTES_MAX || body.iter().filter(|byte| **byte == b'&').count() >= PARAMETERS_MAX
}

impl Form {
    /// Never fails: invalid UTF-8 becomes replacement characters.
    pub(crate) fn parse(body: &[u8]) -> Self {
        let mut parameters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(body) {
            parameters.entry(name.into_owned()).or_default().insert(value.into_owned());
        }
        Self(parameters)
    }

    /// All names and values in order, without separators.
    pub(crate) fn joined(&self) -> String {
        self.0
            .iter()
            .flat_map(|(name, values)| values.iter().flat_map(move |value| [name, value]))
            .map(String::as_str)
            .collect()
    }

    /// Deserializes the parameters. If a name has several values, the first in byte order counts.
    pub(crate) fn read<T: DeserializeOwned>(self) -> Option<T> {
        let first_values = self.0.into_iter().filter_map(|(name, values)| Some((name, values.into_iter().next()?)));
        T::deserialize(MapDeserializer::<_, Error>::new(first_values)).ok()
    }

    /// The parameters as a JSON object of texts. If a name has several values, they become a list in byte order.
    pub(crate) fn into_json(self) -> Map<String, Value> {
        let json = |values: BTreeSet<String>| match values.len() {
            1 => values.into_iter().next().map_or(Value::Null, Value::String),
            _ => values.into_iter().collect(),
        };
        self.0.into_iter().map(|(name, values)| (name, json(values))).collect()
    }
}

/// Sorted parameters of a form, without duplicates. The signatures of Twilio and Plivo do not cover the order.
pub(crate) fn canonical_form(body: &[u8]) -> String {
    let mut parameters: Vec<_> = form_urlencoded::parse(body).collect();
    parameters.sort();
    parameters.dedup();
    form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish()
}

/// All names and values of a form without separators. They are sorted by name, and the values of one name are in the order of the form, with
/// their repetitions.
pub(crate) fn joined_in_order(body: &[u8]) -> String {
    let mut parameters: Vec<_> = form_urlencoded::parse(body).collect();
    parameters.sort_by(|(name, _), (other, _)| name.cmp(other));
    parameters.iter().flat_map(|(name, value)| [&**name, &**value]).collect()
}

/// First value of a query parameter. `None` if it is missing or blank.
pub(crate) fn query_value(query: &str, name: &str) -> Option<String> {
    form_urlencoded::parse(query.as_bytes())
        .find(|(candidate, _)| candidate == name)
        .map(|(_, value)| value.into_owned())
        .filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_repeats_do_not_matter() {
        let form = Form::parse(b"b=2&a=%2B1+x&b=1&b=2&=&c");
        assert!(form == Form::parse(b"c=&=&b=1&b=2&a=%2b1%20x"));
        assert_eq!(form.joined(), "a+1 xb1b2c");
    }

    #[test]
    fn values_of_one_name_keep_their_order() {
        assert_eq!(joined_in_order(b"b=2&a=%2B1+x&b=1&b=2&=&c"), "a+1 xb2b1b2c");
        assert_eq!(joined_in_order(b""), "");
    }

    #[test]
    fn form_becomes_an_object_of_texts() {
        let json = Value::Object(Form::parse(b"b=2&a=%2B1+x&b=1&b=2&c=7&d").into_json());
        assert_eq!(json, serde_json::json!({"a": "+1 x", "b": ["1", "2"], "c": "7", "d": ""}));
    }

    #[test]
    fn first_value_of_a_query_counts() {
        assert_eq!(query_value("a=1&b=&a=2", "a"), Some("1".to_owned()));
        assert_eq!(query_value("a=1&b=&a=2", "b"), None);
        assert_eq!(query_value("", "a"), None);
    }
}
