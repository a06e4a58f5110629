//! Times as RFC 3339 text in JSON, for people and for other programs.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use switchhook_domain::Timestamp;

pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    time.to_string().serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    Timestamp::parse_rfc3339(&text).ok_or_else(|| D::Error::custom("not a time"))
}

pub(crate) mod optional {
    use super::{Deserialize, Deserializer, Error, Serialize, Serializer, Timestamp};

    pub(crate) fn serialize<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.to_string()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        Timestamp::parse_rfc3339(&text).map(Some).ok_or_else(|| D::Error::custom("not a time"))
    }
}
