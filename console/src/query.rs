//! Parameters of a URL or of a posted form.

use axum::http::Uri;

/// Parameters, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &Uri) -> Self {
        Self::parse(uri.query().unwrap_or_default().as_bytes())
    }

    pub(crate) fn parse(form: &[u8]) -> Self {
        Self(form_urlencoded::parse(form).into_owned().collect())
    }

    /// Returns the first value of a parameter. `None` if it is missing or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
        found.filter(|value| !value.is_empty())
    }

    /// Returns the first value of a parameter as it was sent. An id may begin or end with a blank. `None` if it is missing or empty.
    pub(crate) fn id(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        found.filter(|value| !value.is_empty())
    }
}

impl Query {
    /// Returns all values of a parameter that are not empty, as they were sent and in their order.
    pub(crate) fn ids(&self, name: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        values.filter(|value| !value.is_empty()).collect()
    }
}

/// Returns a URL with these parameters, percent-encoded. Ids may hold `/ ? # %`, so no path holds them.
pub(crate) fn url(path: &str, parameters: &[(&str, &str)]) -> String {
    if parameters.is_empty() {
        return path.to_owned();
    }
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
    format!("{path}?{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_comes_back_as_it_was() {
        for id in ["a/b?c#d%e&f=g+h", "é 😀", "retell:call_1:call_ended", "\u{202e}x", "%2F", " x "] {
            let uri: Uri = url("/call", &[("id", id), ("as_of", "2026-11-22T10:00:00Z")]).parse().unwrap();
            assert_eq!(Query::of(&uri).id("id"), Some(id));
        }
        assert_eq!(Query::parse(b"id=&x=%20").get("id"), None);
        assert_eq!(Query::parse(b"event=+a&event=&event=b+").ids("event"), [" a", "b "]);
    }
}
