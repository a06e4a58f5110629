//! Routing: from method and path to the operation.
//!
//! An id may contain slashes, so it is all text between the fixed parts of a path. If several paths match, one without an id
//! wins for its own methods, else the longest.

use std::borrow::Cow;

use http::Method;
use percent_encoding::percent_decode_str;
use switchhook_aws::dynamodb::KEY_BYTES_MAX;

/// Operation of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    ListCalls,
    CreateCall,
    CreateCalls,
    ShowCall,
    ShowCallEvents,
    CancelCall,
    ShowAppointment,
    ShowEventStatus,
    BlockNumber,
    UnblockNumber,
}

/// Method and path of every operation.
pub const ROUTES: [(&str, &str, Operation); 10] = [
    ("GET", "/calls", Operation::ListCalls),
    ("POST", "/calls", Operation::CreateCall),
    ("POST", "/calls/batch", Operation::CreateCalls),
    ("GET", "/calls/{call_id}", Operation::ShowCall),
    ("GET", "/calls/{call_id}/events", Operation::ShowCallEvents),
    ("POST", "/calls/{call_id}/cancel", Operation::CancelCall),
    ("GET", "/appointments/{appointment_id}", Operation::ShowAppointment),
    ("GET", "/events/{event_id}/status", Operation::ShowEventStatus),
    ("PUT", "/do-not-call/{number}", Operation::BlockNumber),
    ("DELETE", "/do-not-call/{number}", Operation::UnblockNumber),
];

/// Routes of the same API that another function serves. Without them, `{call_id}/trigger` would count as an id.
pub const OTHER_ROUTES: [(&str, &str); 1] = [("POST", "/calls/{call_id}/trigger")];

/// Operation of a request, with its path parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) operation: Operation,
    /// Path parameter. Empty if the path has none.
    pub(crate) id: String,
}

/// Error for a request that no operation matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteError {
    NoSuchPath,
    /// Methods of the path, listed as in the header `Allow`.
    MethodNotAllowed(String),
}

impl Route {
    pub(crate) fn parse(method: &Method, path: &str) -> Result<Self, RouteError> {
        let here = ROUTES.iter().map(|(method, path, operation)| (*method, *path, Some(*operation)));
        let elsewhere = OTHER_ROUTES.iter().map(|(method, path)| (*method, *path, None));
        let matching: Vec<_> = here
            .chain(elsewhere)
            .filter_map(|(method, template, operation)| {
                Some((method, template, operation, path_parameter(template, path)?))
            })
            .collect();
        let exact = |(name, template, operation, _): &(&str, &str, Option<Operation>, &str)| {
            operation.filter(|_| *name == method.as_str() && *template == path)
        };
        if let Some(operation) = matching.iter().find_map(exact) {
            return Ok(Self { operation, id: String::new() });
        }
        // A path that is described as it is has the methods that its description lists.
        let described: Vec<&str> =
            matching.iter().filter(|(_, template, _, _)| *template == path).map(|(name, _, _, _)| *name).collect();
        let longest = matching.iter().map(|(_, template, _, _)| template.len()).max();
        let mut longest_matches =
            matching.into_iter().filter(|(_, template, _, _)| Some(template.len()) == longest).peekable();
        if longest_matches.peek().is_none() {
            return Err(RouteError::NoSuchPath);
        }
        let mut allowed = Vec::new();
        for (name, _, operation, id) in longest_matches {
            match operation {
                Some(operation) if name == method.as_str() => return Ok(Self { operation, id: id.to_owned() }),
                None if name == method.as_str() => return Err(RouteError::NoSuchPath),
                Some(_) | None => allowed.push(name),
            }
        }
        let allowed = if described.is_empty() { allowed } else { described };
        Err(RouteError::MethodNotAllowed(allowed.join(", ")))
    }

    /// The route with its percent-encoded id decoded. `None` if decoding changes nothing.
    pub(crate) fn decoded(&self) -> Option<Self> {
        let id = percent_decode_str(&self.id).decode_utf8().ok().map(Cow::into_owned)?;
        (id != self.id).then_some(Self { operation: self.operation, id })
    }
}

/// Path parameter: the text in `path` at the place of `{…}` in the template. `None` if the path does not match.
fn path_parameter<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    match template.split_once('{') {
        None => (path == template).then_some(""),
        Some((before, parameter)) => {
            let (_, after) = parameter.split_once('}')?;
            let id = path.strip_prefix(before)?.strip_suffix(after)?;
            Some(id).filter(|id| !id.is_empty() && id.len() <= KEY_BYTES_MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, path: &str, operation: Operation, id: &str) {
        assert_eq!(Route::parse(&method, path), Ok(Route { operation, id: id.to_owned() }), "{method} {path}");
    }

    #[test]
    fn ids_may_hold_slashes() {
        check(Method::GET, "/calls/retell:c1", Operation::ShowCall, "retell:c1");
        check(Method::GET, "/calls/appointment:a/b/events", Operation::ShowCallEvents, "appointment:a/b");
        check(Method::POST, "/calls/appointment:a/b/cancel", Operation::CancelCall, "appointment:a/b");
        check(Method::GET, "/appointments/2026/7", Operation::ShowAppointment, "2026/7");
        let id = "switchhook:retell:c1/c1/deadline/5";
        check(Method::GET, &format!("/events/{id}/status"), Operation::ShowEventStatus, id);
    }

    #[test]
    fn every_route_leads_to_its_operation() {
        for (method, path, operation) in ROUTES {
            let start = path.find('{').unwrap_or(path.len());
            let id = if start == path.len() { "" } else { "x1" };
            let end = path.find('}').map_or(path.len(), |end| end + 1);
            let path = format!("{}{id}{}", &path[..start], &path[end..]);
            check(method.parse().unwrap(), &path, operation, id);
        }
    }

    #[test]
    fn batch_is_a_path_and_may_be_an_id() {
        check(Method::POST, "/calls/batch", Operation::CreateCalls, "");
        check(Method::GET, "/calls/batch", Operation::ShowCall, "batch");
        check(Method::GET, "/calls/batch/events", Operation::ShowCallEvents, "batch");
    }

    #[test]
    fn encoded_id_is_decoded_once() {
        let route = |id: &str| Route { operation: Operation::ShowCall, id: id.to_owned() };
        assert_eq!(route("appointment%3Aa%252F").decoded(), Some(route("appointment:a%2F")));
        assert_eq!(route("retell:c1").decoded(), None);
        assert_eq!(route("%ff").decoded(), None, "not UTF-8");
    }

    #[test]
    fn method_that_a_path_does_not_have_is_told_from_a_path_that_is_none() {
        let check = |method: Method, path: &str, error: RouteError| {
            assert_eq!(Route::parse(&method, path), Err(error), "{method} {path}");
        };
        let allowed = |methods: &str| RouteError::MethodNotAllowed(methods.to_owned());
        check(Method::DELETE, "/calls", allowed("GET, POST"));
        check(Method::PUT, "/calls/batch", allowed("POST"));
        check(Method::PUT, "/calls/c1", allowed("GET"));
        check(Method::GET, "/calls/c1/cancel", allowed("POST"));
        check(Method::GET, "/calls/c1/trigger", allowed("POST"));
        check(Method::GET, "/do-not-call/+15550100", allowed("PUT, DELETE"));
        check(Method::POST, "/calls/c1/trigger", RouteError::NoSuchPath);
        for path in ["/", "/calls/", "/events/e1", "/events//status", "/do-not-call/", "/elsewhere"] {
            check(Method::GET, path, RouteError::NoSuchPath);
        }
        check(Method::GET, &format!("/calls/{}", "a".repeat(KEY_BYTES_MAX + 1)), RouteError::NoSuchPath);
    }
}
