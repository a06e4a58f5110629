//! Fields of one JSON object of the configuration. Each field is removed when it is read, so that what remains is
//! unknown.

use http::Uri;
use serde_json::{Map, Value};
use thiserror::Error;

use crate::key::Key;

/// Everything that is wrong with the configuration of the providers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid provider configuration: {}", problems.join("; "))]
pub struct ConfigError {
    problems: Vec<String>,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<String>) -> Self {
        Self { problems }
    }

    pub(super) fn one(problem: String) -> Self {
        Self { problems: vec![problem] }
    }

    /// One sentence for each problem. Never empty.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }
}

/// Fields of one object, and the list that its problems are added to.
pub(super) struct Fields<'a> {
    /// Path of the object, which starts every problem: `retell`, or `retell.dial`.
    path: String,
    object: Map<String, Value>,
    /// Fewest characters of a key.
    key_chars_min: usize,
    problems: &'a mut Vec<String>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(
        path: String,
        object: Map<String, Value>,
        key_chars_min: usize,
        problems: &'a mut Vec<String>,
    ) -> Self {
        Self { path, object, key_chars_min, problems }
    }

    /// Fewest characters of a key.
    pub(super) const fn key_chars_min(&self) -> usize {
        self.key_chars_min
    }

    /// Fields of an object inside this one.
    pub(super) fn inner(&mut self, name: &str, object: Map<String, Value>) -> Fields<'_> {
        let path = format!("{}.{name}", self.path);
        Fields { path, object, key_chars_min: self.key_chars_min, problems: self.problems }
    }

    /// Fields of the object that a field holds. `None` if the field is missing or no object.
    pub(super) fn object(&mut self, name: &str) -> Option<Fields<'_>> {
        match self.object.remove(name)? {
            Value::Object(object) => Some(self.inner(name, object)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                self.problem(name, "not an object");
                None
            }
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.object.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.object.remove(name)
    }

    /// Adds a problem with the field, and removes the field.
    pub(super) fn problem(&mut self, name: &str, message: &str) {
        self.object.remove(name);
        self.problems.push(format!("{}.{name}: {message}", self.path));
    }

    /// Adds a problem with the field if it is there, and removes it.
    pub(super) fn reject(&mut self, name: &str, message: &str) {
        if self.has(name) {
            self.problem(name, message);
        }
    }

    /// Adds a problem for every field that is left. `known` lists the fields that exist.
    pub(super) fn reject_unknown(self, known: &str) {
        for name in self.object.keys() {
            self.problems.push(format!("{}.{name:?}: unknown field: known are {known}", self.path));
        }
    }

    /// A required text.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        if !self.has(name) {
            self.problem(name, "missing");
        }
        self.optional_text(name)
    }

    /// A text that is neither empty nor surrounded by white space. `None` if the field is missing or wrong.
    pub(super) fn optional_text(&mut self, name: &str) -> Option<String> {
        let value = self.object.remove(name)?;
        match value.as_str() {
            Some(text) if text.trim() == text && !text.is_empty() => return Some(text.to_owned()),
            Some(_) => self.problem(name, "empty, or with white space around it"),
            None => self.problem(name, "not a text"),
        }
        None
    }

    /// A required secret.
    pub(super) fn key(&mut self, name: &str) -> Option<Key> {
        match self.object.remove(name) {
            Some(Value::String(text)) => match Key::with_length(text, self.key_chars_min) {
                Ok(key) => return Some(key),
                Err(error) => self.problem(name, &error.to_string()),
            },
            Some(_) => self.problem(name, "not a text"),
            None => self.problem(name, "missing"),
        }
        None
    }

    /// A required URL. It may have a query, but no fragment.
    pub(super) fn url(&mut self, name: &str) -> Option<String> {
        let url = self.text(name)?;
        if url.contains('#') || !is_base_url(url.split_once('?').map_or(url.as_str(), |(base, _)| base)) {
            self.problem(name, "not an http or https URL without fragment");
            return None;
        }
        Some(url)
    }

    /// A required https URL of a host alone, perhaps with a port. It is returned without a slash at the end.
    pub(super) fn host_url(&mut self, name: &str) -> Option<String> {
        let url = self.text(name)?;
        let url = url.strip_suffix('/').unwrap_or(&url);
        if !is_host_url(url) {
            self.problem(name, "not an https URL of a host alone, such as https://name.example.com");
            return None;
        }
        Some(url.to_owned())
    }

    /// An optional URL, which must be one of these. `None` if it is the first one, which counts by default. Keys of the account are sent
    /// there, so no other host is accepted.
    pub(super) fn region_url(&mut self, name: &str, urls: &[&str]) -> Option<String> {
        let url = self.optional_text(name)?;
        if !urls.contains(&url.as_str()) {
            self.problem(name, &format!("not one of {}", urls.join(", ")));
            return None;
        }
        Some(url).filter(|url| urls.first() != Some(&url.as_str()))
    }

    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.object.remove(name)?;
        if value.as_bool().is_none() {
            self.problem(name, "neither true nor false");
        }
        value.as_bool()
    }
}

/// True if the text is an https URL that consists of a host, and perhaps a port. Keys of the account are sent there, so nothing else may
/// hide in it: with a user name, `https://name.example.com@example.net` would lead to another host.
fn is_host_url(url: &str) -> bool {
    let host = url.strip_prefix("https://").filter(|host| !host.contains(['/', '@']));
    host.is_some() && is_base_url(url)
}

/// True if the text is an http or https URL with a host, and without query and fragment.
pub(super) fn is_base_url(url: &str) -> bool {
    if url.contains(['?', '#']) {
        return false;
    }
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_urls_are_https_and_a_host_alone() {
        for good in ["https://name.example.com", "https://name.example.com:8443", "https://name.example.com/"] {
            let mut problems = Vec::new();
            let object = Map::from_iter([("api_url".to_owned(), good.into())]);
            let mut fields = Fields::new("acme.dial".to_owned(), object, 0, &mut problems);
            assert_eq!(fields.host_url("api_url").as_deref(), Some(good.trim_end_matches('/')));
            assert!(problems.is_empty());
        }
        for bad in [
            "http://name.example.com",
            "wss://name.example.com",
            "HTTPS://name.example.com",
            "name.example.com",
            "https://",
            "https:///",
            "https://:443",
            "https://name.example.com//",
            "https://name.example.com/v1",
            "https://name.example.com?a=1",
            "https://name.example.com#a",
            "https://name.example.com@example.net",
            "https://user:pass@name.example.com",
            "https://name.example.com\\@example.net",
            "https://name example.com",
        ] {
            let mut problems = Vec::new();
            let object = Map::from_iter([("api_url".to_owned(), bad.into())]);
            let mut fields = Fields::new("acme.dial".to_owned(), object, 0, &mut problems);
            assert_eq!(fields.host_url("api_url"), None, "{bad}");
            let message = "not an https URL of a host alone, such as https://name.example.com";
            assert_eq!(problems, [format!("acme.dial.api_url: {message}")], "{bad}");
        }
    }
}
