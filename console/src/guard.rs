//! The guard before all pages: it refuses what a page of another site could send.
//!
//! A browser tells from where a request comes, by `Host`, `Sec-Fetch-Site` and `Origin`. All must be this console's own, and the
//! cookie must belong to a session. The answer to a refused request does not say which check failed; the log does.

use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN, REFERRER_POLICY, REFRESH, SET_COOKIE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use switchhook_operate::web::refusal_line;

use crate::assets;
use crate::console::Console;
use crate::query::Query;
use crate::session::Session;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// No script, style, image or request of another origin; no frame around a page; no text that becomes a script.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types switchhook";

/// Reason to refuse a request, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Host,
    Site,
    Origin,
    Session,
}

impl Refused {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "it came by a name that is not this console's",
            Self::Site => "it came from another site",
            Self::Origin => "it came from another origin",
            Self::Session => "it has no cookie of a session; open the link from the terminal",
        }
    }
}

/// Refuses foreign requests, opens a session with a token, and gives every response its security headers.
pub(crate) async fn check(State(console): State<Console>, mut request: Request, next: Next) -> Response {
    let is_asset = assets::is_asset(request.uri().path());
    let response = match judge(&console, &request) {
        Ok(Allowed::Link(token)) => open(&console, &token),
        Ok(Allowed::Page(session)) => {
            request.extensions_mut().insert(session);
            next.run(request).await
        }
        Err(refused) => {
            // The line holds everything, because the log shows no fields.
            tracing::warn!(target: "switchhook_console", "{}", refusal_line(&request, refused.as_str()));
            (StatusCode::FORBIDDEN, "This page opens only with the link that the terminal shows.\n").into_response()
        }
    };
    with_headers(response, is_asset)
}

/// Request that may pass.
enum Allowed {
    /// The link from the terminal, with its token.
    Link(String),
    Page(Session),
}

fn judge(console: &Console, request: &Request) -> Result<Allowed, Refused> {
    let headers = request.headers();
    if header(headers, &HOST) != Some(console.options().host.as_str()) {
        return Err(Refused::Host);
    }
    let is_read = request.method() == Method::GET || request.method() == Method::HEAD;
    let token = Query::of(request.uri()).get("token").map(str::to_owned);
    if let (true, "/", Some(token)) = (request.method() == Method::GET, request.uri().path(), token) {
        // Any program may show the link, a web page too, but it must be opened as a page of its own.
        return if is_navigation(headers) { Ok(Allowed::Link(token)) } else { Err(Refused::Site) };
    }
    match header(headers, &SEC_FETCH_SITE) {
        Some("same-origin") => {}
        // An address that the user typed, or a bookmark.
        Some("none") if is_read && is_navigation(headers) => {}
        Some(_) | None => return Err(Refused::Site),
    }
    let origin = format!("http://{}", console.options().host);
    match header(headers, &ORIGIN) {
        Some(sent) if sent != origin => return Err(Refused::Origin),
        None if !is_read => return Err(Refused::Origin),
        Some(_) | None => {}
    }
    let secrets = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let name = cookie_name(console);
    let mut secrets = secrets
        .flat_map(|cookies| cookies.split("; "))
        .filter_map(|cookie| cookie.split_once('=').filter(|(known, _)| *known == name).map(|(_, secret)| secret));
    secrets.find_map(|secret| console.sessions().find(secret)).map(Allowed::Page).ok_or(Refused::Session)
}

fn is_navigation(headers: &HeaderMap) -> bool {
    header(headers, &SEC_FETCH_MODE) == Some("navigate")
}

/// Exchanges the token for a cookie. A token that is used up or unknown is refused like any other request.
fn open(console: &Console, token: &str) -> Response {
    let session = match console.sessions().open(token) {
        Ok(Some(session)) => session,
        Ok(None) => {
            let text =
                "This link was used already, or is none of this console. Press Enter in the terminal for a new one.\n";
            return (StatusCode::FORBIDDEN, text).into_response();
        }
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    };
    let cookie = format!(
        "{}={}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}",
        cookie_name(console),
        session.secret(),
        12 * 60 * 60
    );
    // No redirect: of a link on a page of another site, a browser counts the redirected request as that site's too, and sends no
    // strict cookie with it. This page is the console's own, so the navigation from it is as well.
    let headers = [(SET_COOKIE, cookie), (REFRESH, "0; url=/".to_owned())];
    (StatusCode::OK, headers, "The console opens. If it does not, load its first page.\n").into_response()
}

/// Returns the name of the cookie. It holds the port, because browsers give a host's cookies to all its ports.
fn cookie_name(console: &Console) -> String {
    let host = &console.options().host;
    format!("switchhook-{}", host.rsplit_once(':').map_or("80", |(_, port)| port))
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn with_headers(mut response: Response, is_asset: bool) -> Response {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Not `no-referrer`: with it, browsers send `Origin: null` with the forms of these pages.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // The name of an asset holds its hash, so it never changes.
    let cache = if is_asset { "private, max-age=31536000, immutable" } else { "no-store" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
