//! Routing: from method and path to the operation. No path has a parameter: ids travel in the [query](switchhook_aws::query).

use http::Method;

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
    ("GET", "/call", Operation::ShowCall),
    ("GET", "/call/events", Operation::ShowCallEvents),
    ("POST", "/call/cancel", Operation::CancelCall),
    ("GET", "/appointment", Operation::ShowAppointment),
    ("GET", "/event/status", Operation::ShowEventStatus),
    ("PUT", "/do-not-call", Operation::BlockNumber),
    ("DELETE", "/do-not-call", Operation::UnblockNumber),
];

/// Routes of the same API that another function serves.
pub const OTHER_ROUTES: [(&str, &str); 1] = [("POST", "/call/trigger")];

/// Error for a request that no operation matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RouteError {
    NoSuchPath,
    /// Methods of the path, listed as in the header `Allow`.
    MethodNotAllowed(String),
}

impl Operation {
    pub(crate) fn find(method: &Method, path: &str) -> Result<Self, RouteError> {
        let found = ROUTES.iter().find(|(name, known, _)| *name == method.as_str() && *known == path);
        if let Some((_, _, operation)) = found {
            return Ok(*operation);
        }
        let routes = ROUTES.iter().map(|(name, known, _)| (*name, *known)).chain(OTHER_ROUTES);
        let allowed: Vec<&str> = routes.filter(|(_, known)| *known == path).map(|(name, _)| name).collect();
        // Another function serves a route with this method.
        if allowed.is_empty() || allowed.contains(&method.as_str()) {
            return Err(RouteError::NoSuchPath);
        }
        Err(RouteError::MethodNotAllowed(allowed.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_leads_to_its_operation() {
        for (method, path, operation) in ROUTES {
            assert_eq!(Operation::find(&method.parse().unwrap(), path), Ok(operation), "{method} {path}");
        }
    }

    #[test]
    fn no_path_has_a_parameter() {
        for path in ROUTES.iter().map(|(_, path, _)| *path).chain(OTHER_ROUTES.map(|(_, path)| path)) {
            assert!(path.bytes().all(|byte| byte.is_ascii_lowercase() || b"/-".contains(&byte)), "{path}");
        }
    }

    #[test]
    fn method_that_a_path_does_not_have_is_told_from_a_path_that_is_none() {
        let check = |method: Method, path: &str, error: RouteError| {
            assert_eq!(Operation::find(&method, path), Err(error), "{method} {path}");
        };
        let allowed = |methods: &str| RouteError::MethodNotAllowed(methods.to_owned());
        check(Method::DELETE, "/calls", allowed("GET, POST"));
        check(Method::PUT, "/calls/batch", allowed("POST"));
        check(Method::PUT, "/call", allowed("GET"));
        check(Method::GET, "/call/cancel", allowed("POST"));
        check(Method::GET, "/call/trigger", allowed("POST"));
        check(Method::GET, "/do-not-call", allowed("PUT, DELETE"));
        check(Method::POST, "/call/trigger", RouteError::NoSuchPath);
        for path in
            ["", "/", "/calls/", "/calls/c1", "/call/", "/events/e1/status", "/do-not-call/+15550100", "/elsewhere"]
        {
            check(Method::GET, path, RouteError::NoSuchPath);
        }
    }
}
