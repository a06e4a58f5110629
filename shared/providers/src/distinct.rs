//! JSON whose objects name each field once.
//!
//! `serde_json` keeps the last of two values with one name. Nothing tells which of them its sender meant, so here a text with a repeated
//! name is refused.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::json::visit_scalars;
use crate::lenient::read_error;
use crate::reading::ReadError;

/// Parses JSON of any form.
///
/// # Errors
/// [`ReadError::RepeatedField`] if an object names a field twice, at any depth. [`ReadError::InvalidUtf8`] and
/// [`ReadError::InvalidJson`].
pub fn distinct_json(body: &[u8]) -> Result<Value, ReadError> {
    let text = std::str::from_utf8(body).map_err(|_| ReadError::InvalidUtf8)?;
    let value: Distinct = serde_json::from_str(text).map_err(|error| read_error(&error))?;
    Ok(value.0)
}

/// Parses JSON of any form, for a document whose author may see its content.
///
/// # Errors
/// The text is no JSON. Or an object names a field twice, at any depth: the error is one of the data, and its text names the field.
pub(crate) fn distinct_document(json: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(json).map(|Distinct(value)| value)
}

struct Distinct(Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
                let mut fields = Map::new();
                while let Some(name) = map.next_key::<String>()? {
                    if fields.contains_key(&name) {
                        return Err(A::Error::custom(format!("the field {name:?} is named twice")));
                    }
                    fields.insert(name, map.next_value::<Distinct>()?.0);
                }
                Ok(Value::Object(fields))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(Distinct(element)) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(Value::Array(elements))
            }

            visit_scalars!(self, scalar => scalar.into());
        }

        deserializer.deserialize_any(Reader).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_repeated_names_is_read_as_by_serde_json() {
        for json in [
            r#"{"a":[1,-1,1.5,18446744073709551615,true,null,"é😀",{"a":{}}],"b":{"a":{}}}"#,
            "7",
            "[]",
            " null ",
            r#""x""#,
        ] {
            assert_eq!(distinct_json(json.as_bytes()), Ok(serde_json::from_str(json).unwrap()), "{json}");
        }
    }

    #[test]
    fn repeated_names_and_broken_texts_are_refused_with_their_place() {
        for (json, column) in [(r#"{"a":1,"a":1}"#, 10), (r#"[{"b":{"a":1,"\u0061":2}}]"#, 21)] {
            assert_eq!(distinct_json(json.as_bytes()), Err(ReadError::RepeatedField { line: 1, column }), "{json}");
        }
        assert_eq!(distinct_json(b"{\"a\":"), Err(ReadError::InvalidJson { line: 1, column: 5 }));
        assert_eq!(distinct_json(b"\"\xff\""), Err(ReadError::InvalidUtf8));
        let deep = "[".repeat(200_000);
        assert!(matches!(distinct_json(deep.as_bytes()), Err(ReadError::InvalidJson { .. })));
    }
}
