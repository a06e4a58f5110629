//! Lenient deserialization of the providers' JSON.
//!
//! A field with an unexpected type counts as missing, never as an error: one odd field must not hide the rest of an
//! event. Unknown fields are skipped without building values in memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Error, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

use crate::json::{self, visit_scalars};
use crate::reading::ReadError;

/// Parses a JSON object. `serde_json` limits the nesting of values that it builds, and skips the others without
/// recursion. A text may hold [half of a character](json).
pub(crate) fn from_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, ReadError> {
    let text = std::str::from_utf8(body).map_err(|_| ReadError::InvalidUtf8)?;
    let object: Object<T> = json::parse(text).map_err(|error| read_error(&error))?;
    object.0.ok_or(ReadError::NotAnObject)
}

/// Returns the reason why a text was refused. A type that takes every value refuses nothing but a repeated field.
pub(crate) fn read_error(error: &serde_json::Error) -> ReadError {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        Category::Io | Category::Syntax | Category::Eof => ReadError::InvalidJson { line, column },
        Category::Data => ReadError::RepeatedField { line, column },
    }
}

/// Reads a text that is not blank, or a whole number as text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Text(text) => Some(text).filter(|text| !text.trim().is_empty()),
        Scalar::Integer(number) => Some(number.to_string()),
        Scalar::Flag(_) | Scalar::Other => None,
    })
}

/// Reads milliseconds since the Unix epoch, from a number or a text. Zero and negative numbers count as missing.
pub(crate) fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let millis = match Scalar::deserialize(deserializer)? {
        Scalar::Integer(number) => i64::try_from(number).ok(),
        Scalar::Text(text) => text.trim().parse().ok(),
        Scalar::Flag(_) | Scalar::Other => None,
    };
    Ok(millis.filter(|millis| *millis > 0))
}

/// Reads `true` or `false`, as a boolean or as text.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Flag(flag) => Some(flag),
        Scalar::Text(text) => text.trim().to_ascii_lowercase().parse().ok(),
        Scalar::Integer(_) | Scalar::Other => None,
    })
}

/// Reads one name of an enum. An unknown name counts as missing, unless the enum has a variant for it.
pub(crate) fn word<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(text(deserializer)?.and_then(|word| {
        let word: serde::de::value::StringDeserializer<serde::de::value::Error> = word.into_deserializer();
        T::deserialize(word).ok()
    }))
}

/// Reads an object. With `derive(Deserialize)` alone, an array would be accepted as the fields in order.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(Object::deserialize(deserializer)?.0)
}

struct Object<T>(Option<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for Reader<T> {
            type Value = Option<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Some)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                skip_seq(seq).map(|()| None)
            }

            visit_scalars!(self, _ => None);
        }

        deserializer.deserialize_any(Reader(PhantomData)).map(Self)
    }
}

enum Scalar {
    Text(String),
    Integer(i128),
    Flag(bool),
    /// Null, a number with a fraction, an array or an object.
    Other,
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Scalar, E> {
                Ok(Scalar::Text(text))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(number.into()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Integer(number.into()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
                // From 2^53 on, two different ids could become the same number.
                const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;
                if number.fract() == 0.0 && number.abs() < EXACT_BELOW {
                    Ok(Scalar::Integer(number as i128))
                } else {
                    Ok(Scalar::Other)
                }
            }

            fn visit_bool<E: Error>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar::Flag(flag))
            }

            fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
                Ok(Scalar::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Scalar, A::Error> {
                skip_seq(seq).map(|()| Scalar::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Other)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

fn skip_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// True if the text is a number above zero.
pub(crate) fn is_positive(text: Option<&str>) -> bool {
    text.and_then(|text| text.trim().parse::<f64>().ok()).is_some_and(|number| number > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Wire {
        #[serde(deserialize_with = "text")]
        name: Option<String>,
        #[serde(deserialize_with = "millis")]
        at: Option<i64>,
        #[serde(deserialize_with = "flag")]
        done: Option<bool>,
        #[serde(deserialize_with = "object")]
        inner: Option<Inner>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Inner {
        #[serde(deserialize_with = "text")]
        id: Option<String>,
    }

    fn read(json: &str) -> Result<Wire, ReadError> {
        from_body(json.as_bytes())
    }

    #[test]
    fn numbers_and_texts_are_taken_for_each_other() {
        assert_eq!(
            read(r#"{"name":42,"at":"1700000000000","done":"True","inner":{"id":2.0}}"#),
            Ok(Wire {
                name: Some("42".to_owned()),
                at: Some(1_700_000_000_000),
                done: Some(true),
                inner: Some(Inner { id: Some("2".to_owned()) }),
            })
        );
    }

    #[test]
    fn odd_shapes_count_as_missing() {
        for json in [
            r#"{"name":{"a":[1]},"at":[[]],"done":null,"inner":["id"]}"#,
            r#"{"name":" ","at":-5,"done":"maybe","inner":"id"}"#,
            r#"{"name":true,"at":1e300,"done":1,"inner":7}"#,
            r#"{"name":1.5,"at":18446744073709551615,"done":{},"inner":null}"#,
            r#"{"name":123456789012345678901234,"inner":false,"more":{"name":"x"}}"#,
        ] {
            assert_eq!(read(json), Ok(Wire::default()), "{json}");
        }
    }

    #[test]
    fn what_is_not_an_object_is_refused() {
        for json in ["[]", "[\"name\"]", "7", "-7", "1.5", "\"secret\"", "null", "true"] {
            assert_eq!(read(json), Err(ReadError::NotAnObject), "{json}");
        }
    }

    #[test]
    fn broken_json_is_refused_with_its_place() {
        assert_eq!(read("{\"name\":"), Err(ReadError::InvalidJson { line: 1, column: 8 }));
        assert_eq!(read("{} x"), Err(ReadError::InvalidJson { line: 1, column: 4 }));
        assert_eq!(read(""), Err(ReadError::InvalidJson { line: 1, column: 0 }));
        assert_eq!(from_body::<Wire>(b"{\"name\":\"\xff\"}"), Err(ReadError::InvalidUtf8));
        assert_eq!(from_body::<Wire>(b"{\"more\":\"\xff\"}"), Err(ReadError::InvalidUtf8));
    }

    #[test]
    fn a_field_that_is_there_twice_is_refused() {
        assert_eq!(read(r#"{"name":"a","name":"b"}"#), Err(ReadError::RepeatedField { line: 1, column: 18 }));
    }

    #[test]
    fn deep_nesting_is_skipped_or_refused_without_a_stack() {
        let deep = |field: &str| format!("{{\"{field}\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(read(&deep("more")), Ok(Wire::default()));
        assert_eq!(read(&deep("name")), Ok(Wire::default()));
        assert_eq!(read(&deep("inner")), Ok(Wire::default()));
    }
}
