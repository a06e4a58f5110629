//! Edge: the proxy in front of the HTTP API, such as CloudFront (`infra/edge.yaml`).
//!
//! The edge adds two headers to each request, and replaces what the sender wrote into them. One has a key, which proves that
//! the request came through the edge. The other has the address of the sender. **The address is trusted only together with
//! the key**, because only [`Edge::forwarded`] reads it.

use std::net::IpAddr;

use http::HeaderMap;
use serde_json::Value;
use subtle::{Choice, ConstantTimeEq};

use crate::key::Key;

/// Name of the entry in the webhook keys, beside the names of the providers.
pub(super) const EDGE: &str = "edge";

/// Header with the edge key.
const EDGE_KEY_HEADER: &str = "x-switchhook-edge-key";
/// Header with the address of the sender, without a port.
const VIEWER_ADDRESS_HEADER: &str = "x-switchhook-viewer-address";

/// Shortest key. Unlike a key that signs, it travels with every request, so anybody may guess as often as requests are
/// accepted.
const KEY_CHARS_MIN: usize = 32;
const KEY_CHARS_MAX: usize = 512;
/// Maximum number of keys: the one that the edge sends, and during a rotation the one before or after it.
const KEYS_MAX: usize = 2;

/// Keys that prove that a request came through the edge.
#[derive(Clone, Debug)]
pub struct Edge {
    keys: Vec<Key>,
}

/// Facts about a request that the edge reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Address of the sender. `None` if the edge reports none that can be read.
    pub source: Option<IpAddr>,
}

impl Edge {
    /// Reads the entry. `None` if it has problems, which are then in `problems`.
    pub(super) fn read(value: Value, problems: &mut Vec<String>) -> Option<Self> {
        let Value::Object(mut object) = value else {
            problems.push(format!("{EDGE}: not an object"));
            return None;
        };
        let problems_before = problems.len();
        let mut keys = Vec::new();
        match object.remove("keys") {
            Some(Value::Array(texts)) if (1..=KEYS_MAX).contains(&texts.len()) => {
                for (index, text) in texts.into_iter().enumerate() {
                    match edge_key(text) {
                        Some(key) => keys.push(key),
                        None => problems.push(format!(
                            "{EDGE}.keys[{index}]: not {KEY_CHARS_MIN} to {KEY_CHARS_MAX} visible ASCII characters"
                        )),
                    }
                }
            }
            Some(_) => problems.push(format!("{EDGE}.keys: not a list of one to {KEYS_MAX} keys")),
            None => problems.push(format!("{EDGE}.keys: missing")),
        }
        let unknown = object.keys().map(|name| format!("{EDGE}.{name:?}: unknown field: known are keys"));
        problems.extend(unknown);
        (problems.len() == problems_before).then_some(Self { keys })
    }

    /// Returns what the edge reports about a request. `None` if the request did not come through the edge. The time of the
    /// comparison depends on the lengths of the keys alone.
    #[must_use]
    pub fn forwarded(&self, headers: &HeaderMap) -> Option<Forwarded> {
        let presented = single(headers, EDGE_KEY_HEADER)?;
        let is_edge = self.keys.iter().fold(Choice::from(0), |found, key| found | key.as_bytes().ct_eq(presented));
        let source = || std::str::from_utf8(single(headers, VIEWER_ADDRESS_HEADER)?).ok()?.parse().ok();
        bool::from(is_edge).then(|| Forwarded { source: source() })
    }
}

fn edge_key(value: Value) -> Option<Key> {
    let Value::String(text) = value else { return None };
    let is_right =
        (KEY_CHARS_MIN..=KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_right { Key::new(text).ok() } else { None }
}

/// Value of a header that occurs exactly once.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        (Some(_), Some(_)) | (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";
    const NEXT: &str = "next-6789abcdef0123456789abcdef!~";

    fn read(value: Value) -> Result<Edge, Vec<String>> {
        let mut problems = Vec::new();
        Edge::read(value, &mut problems).ok_or(problems)
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn source(text: &str) -> Option<Forwarded> {
        Some(Forwarded { source: Some(text.parse().unwrap()) })
    }

    #[test]
    fn address_is_trusted_only_with_one_of_the_keys() {
        let edge = read(json!({"keys": [NEXT, KEY]})).unwrap();
        let address = (VIEWER_ADDRESS_HEADER, "198.51.100.7");
        for key in [KEY, NEXT] {
            assert_eq!(edge.forwarded(&headers(&[(EDGE_KEY_HEADER, key), address])), source("198.51.100.7"));
        }
        let longer = format!("{KEY}0");
        for wrong in ["", &KEY[1..], &longer, &KEY.to_uppercase(), &format!("{NEXT},{KEY}"), &format!("{KEY}, {KEY}")] {
            assert_eq!(edge.forwarded(&headers(&[(EDGE_KEY_HEADER, wrong), address])), None, "{wrong}");
        }
        assert_eq!(edge.forwarded(&headers(&[address])), None);
        let mut twice = headers(&[(EDGE_KEY_HEADER, KEY), address]);
        twice.append(EDGE_KEY_HEADER, KEY.parse().unwrap());
        assert_eq!(edge.forwarded(&twice), None, "a sender has added a key of its own");
    }

    #[test]
    fn address_that_cannot_be_read_is_unknown() {
        let edge = read(json!({"keys": [KEY]})).unwrap();
        let forwarded = |address: &str| {
            edge.forwarded(&headers(&[(EDGE_KEY_HEADER, KEY), (VIEWER_ADDRESS_HEADER, address)])).unwrap().source
        };
        assert_eq!(forwarded("2001:db8::7"), Some("2001:db8::7".parse().unwrap()));
        for bad in ["", "198.51.100.7:443", "[2001:db8::7]", "198.51.100.7, 192.0.2.1", "198.51.100", "unknown"] {
            assert_eq!(forwarded(bad), None, "{bad}");
        }
        assert_eq!(edge.forwarded(&headers(&[(EDGE_KEY_HEADER, KEY)])), Some(Forwarded { source: None }));
    }

    #[test]
    fn every_problem_is_reported_and_no_key_is_shown() {
        let list = "edge.keys: not a list of one to 2 keys";
        let key = |index: usize| format!("edge.keys[{index}]: not 32 to 512 visible ASCII characters");
        for (value, expected) in [
            (json!("SECRET"), vec!["edge: not an object".to_owned()]),
            (json!({}), vec!["edge.keys: missing".to_owned()]),
            (json!({"keys": KEY}), vec![list.to_owned()]),
            (json!({"keys": []}), vec![list.to_owned()]),
            (json!({"keys": [KEY, KEY, KEY]}), vec![list.to_owned()]),
            (json!({"keys": ["SECRET", 7]}), vec![key(0), key(1)]),
            (json!({"keys": [format!("{KEY}\n"), format!("{KEY} {KEY}")]}), vec![key(0), key(1)]),
            (json!({"keys": [KEY.repeat(17), KEY]}), vec![key(0)]),
            (json!({"keys": [KEY], "key": "SECRET"}), vec!["edge.\"key\": unknown field: known are keys".to_owned()]),
        ] {
            assert_eq!(read(value.clone()).unwrap_err(), expected, "{value}");
        }
        assert!(!format!("{:?}", read(json!({"keys": [KEY]})).unwrap()).contains(KEY));
    }
}
