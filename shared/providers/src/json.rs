//! Parser of JSON whose texts may hold half of a character.
//!
//! JavaScript and Python count in UTF-16, where an emoji has two halves. A program that cuts a text after the first one writes
//! `"\ud83d"`, which is JSON and no Unicode text. `serde_json` refuses it in every text that it builds. Here such a half
//! becomes U+FFFD, as browsers show it. **So a cut transcript never hides how a call ended.** The bytes that are signed and stored stay as
//! they are.
//!
//! A body is searched for halves only after it was refused, so every other body costs nothing.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Value};

/// Escape of U+FFFD. It is as long as any other `\u` escape, so the columns in errors stay right.
const REPLACEMENT: &[u8] = br"\ufffd";

pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    with_whole_characters(text, |text| serde_json::from_str(text))
}

/// Parses a body of any type. `None` if it is not JSON.
pub(crate) fn value(body: &[u8]) -> Option<Value> {
    parse(std::str::from_utf8(body).ok()?).ok()
}

/// Value at a JSON pointer (RFC 6901). Builds nothing else, so no other part of the text can be too deep or too large. An array or an object
/// is returned without its content. `None` if there is no such value, or if the text is not JSON.
pub(crate) fn value_at(text: &str, pointer: &str) -> Option<Value> {
    let path: Vec<String> = pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    let found = with_whole_characters(text, |text| {
        let mut deserializer = Deserializer::from_str(text);
        let found = At(&path).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(found)
    });
    found.ok().flatten()
}

/// Reads a text. If it is refused, reads it again without halves of characters.
fn with_whole_characters<T>(text: &str, read: impl Fn(&str) -> serde_json::Result<T>) -> serde_json::Result<T> {
    read(text).or_else(|error| match replace_halves(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(text) => read(&text),
    })
}

/// Replaces every escape of a half that is not followed or preceded by the other one. In valid JSON, a backslash occurs only in texts.
fn replace_halves(text: &str) -> Cow<'_, str> {
    let mut replaced: Option<Vec<u8>> = None;
    let mut rest = text.as_bytes();
    while let Some(start) = rest.iter().position(|byte| *byte == b'\\') {
        let escape = rest.get(start..).unwrap_or_default();
        let (length, is_half) = match (code_unit(escape), escape.get(6..).and_then(code_unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (12, false),
            (Some(0xd800..=0xdfff), _) => (6, true),
            (Some(_), _) => (6, false),
            // The second character of an escape may be a backslash.
            (None, _) => (2, false),
        };
        if is_half {
            let at = text.len().saturating_sub(escape.len());
            let bytes = replaced.get_or_insert_with(|| text.as_bytes().to_vec());
            if let Some(half) = bytes.get_mut(at..at.saturating_add(length)) {
                half.copy_from_slice(REPLACEMENT);
            }
        }
        rest = escape.get(length..).unwrap_or_default();
    }
    replaced.and_then(|bytes| String::from_utf8(bytes).ok()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The UTF-16 code unit of an escape such as `\ud83d`, at the beginning of these bytes.
fn code_unit(escape: &[u8]) -> Option<u16> {
    let digits = escape.strip_prefix(br"\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit: u16, digit| Some((unit << 4) | char::from(*digit).to_digit(16)? as u16))
}

/// Writes the methods of a visitor for texts, booleans, numbers and null. All return the value of one expression, which may use the scalar. Null
/// is a `None` there.
macro_rules! visit_scalars {
    ($self:ident, $scalar:pat_param => $value:expr) => {
        fn visit_str<E: serde::de::Error>($self, $scalar: &str) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_bool<E: serde::de::Error>($self, $scalar: bool) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_i64<E: serde::de::Error>($self, $scalar: i64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_u64<E: serde::de::Error>($self, $scalar: u64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_f64<E: serde::de::Error>($self, $scalar: f64) -> Result<Self::Value, E> {
            Ok($value)
        }

        fn visit_unit<E: serde::de::Error>($self) -> Result<Self::Value, E> {
            let $scalar = None::<bool>;
            Ok($value)
        }
    };
}
pub(crate) use visit_scalars;

/// Reads the value at a path, and skips everything else.
struct At<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<Value>;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl At<'_> {
    fn scalar(&self, value: impl Into<Value>) -> Option<Value> {
        self.0.is_empty().then(|| value.into())
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = self.scalar(serde_json::Map::new());
        while let Some(name) = map.next_key::<String>()? {
            match self.0.split_first() {
                Some((first, rest)) if *first == name => found = map.next_value_seed(At(rest))?,
                Some(_) | None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let Some((first, rest)) = self.0.split_first() else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(self.scalar(Vec::<Value>::new()));
        };
        // An index of RFC 6901 has no sign and no leading zero.
        let index = first.parse::<usize>().ok().filter(|index| index.to_string() == *first);
        let mut found = None;
        let mut position = 0_usize;
        loop {
            let has_more = if Some(position) == index {
                let element = seq.next_element_seed(At(rest))?;
                let has_more = element.is_some();
                found = element.flatten();
                has_more
            } else {
                seq.next_element::<IgnoredAny>()?.is_some()
            };
            if !has_more {
                return Ok(found);
            }
            position = position.saturating_add(1);
        }
    }

    visit_scalars!(self, scalar => self.scalar(scalar));
}

#[cfg(test)]
mod random {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of a JSON text: characters as they are, every short escape, and every code unit as an escape.
    fn piece() -> impl Strategy<Value = String> {
        let unit = prop_oneof![any::<u16>(), 0xd7f0_u16..0xe010];
        prop_oneof![
            "[ -!#-\\[\\]-~é😀]{0,3}",
            prop::sample::select(vec![r"\\", r#"\""#, r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\\ud83d"])
                .prop_map(str::to_owned),
            unit.clone().prop_map(|unit| format!(r"\u{unit:04x}")),
            unit.prop_map(|unit| format!(r"\u{unit:04X}")),
            Just(r"\ud83d\uDE00".to_owned()),
        ]
    }

    /// The text as JavaScript decodes it, whose halves then become U+FFFD.
    fn decoded(text: &str) -> String {
        let mut units = Vec::new();
        let mut rest = text.chars();
        while let Some(one) = rest.next() {
            if one != '\\' {
                units.extend(one.encode_utf16(&mut [0; 2]).iter());
                continue;
            }
            units.push(match rest.next().unwrap() {
                'u' => u16::from_str_radix(&rest.by_ref().take(4).collect::<String>(), 16).unwrap(),
                'b' => 8,
                'f' => 12,
                'n' => 10,
                'r' => 13,
                't' => 9,
                other => other as u16,
            });
        }
        String::from_utf16_lossy(&units)
    }

    proptest! {
        #![proptest_config(switchhook_random::config(1024, None))]

        #[test]
        fn every_text_with_escapes_is_read_as_a_browser_reads_it(pieces in prop::collection::vec(piece(), 0..8)) {
            let text = pieces.concat();
            let body = format!(r#"{{"{text}":["{text}"]}}"#);
            let expected = decoded(&text);
            let read = value(body.as_bytes()).unwrap();
            prop_assert_eq!(&read, &serde_json::json!({expected.clone(): [expected.clone()]}));
            let pointer = format!("/{}/0", expected.replace('~', "~0").replace('/', "~1"));
            prop_assert_eq!(value_at(&body, &pointer), Some(Value::from(expected)));
            // A text that can be read is not changed.
            if serde_json::from_str::<Value>(&body).is_ok() {
                prop_assert!(matches!(replace_halves(&body), Cow::Borrowed(_)));
            }
        }

        #[test]
        fn replacing_changes_no_length_and_panics_never(text in r#"(\\|u|d8|dc|D83D|\\u[0-9a-fA-F]{4}|"|é|.){0,12}"#) {
            prop_assert_eq!(replace_halves(&text).len(), text.len());
            if let Ok(read) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(parse::<Value>(&text).unwrap(), read);
            }
        }
    }
}
