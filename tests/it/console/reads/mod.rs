//! Pages of the console, over a stack: lists, searches and single events.

mod lists;
mod searches;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use switchhook_console::{Console, Options};
use switchhook_operate::Stack;
use tower::ServiceExt;

const HOST: &str = "switchhook.localhost:8788";
const PAGE_BYTES_MAX: usize = 4 << 20;

/// A browser with a session.
pub(crate) struct Browser {
    pages: Router,
    cookie: String,
}

/// Response of the console.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    /// URL to which the response leads.
    pub(crate) location: Option<String>,
    pub(crate) html: String,
}

impl Browser {
    /// Opens the console of a stack with its link.
    pub(crate) async fn open(stack: Stack) -> Self {
        let console = Console::new(stack, Options { host: HOST.to_owned(), allows_changes: false });
        let link = console.link().unwrap();
        let path = link.strip_prefix(&format!("http://{HOST}")).unwrap().to_owned();
        let pages = console.router();
        let request = Request::get(path).header("host", HOST).header("sec-fetch-site", "none");
        let request = request.header("sec-fetch-mode", "navigate").body(Body::empty()).unwrap();
        let opened = pages.clone().oneshot(request).await.unwrap();
        let cookie =
            opened.headers().get("set-cookie").unwrap().to_str().unwrap().split(';').next().unwrap().to_owned();
        Self { pages, cookie }
    }

    pub(crate) async fn get(&self, url: &str) -> Page {
        let request = Request::get(url).header("sec-fetch-mode", "navigate");
        self.send(request, Body::empty()).await
    }

    pub(crate) async fn post(&self, url: &str, form: &[(&str, &str)]) -> Page {
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::post(url).header("origin", format!("http://{HOST}"));
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        self.send(request, Body::from(form)).await
    }

    async fn send(&self, request: http::request::Builder, body: Body) -> Page {
        let request = request.header("host", HOST).header("sec-fetch-site", "same-origin");
        let request = request.header("cookie", &self.cookie).body(body).unwrap();
        let response = self.pages.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let location = response.headers().get("location").map(|url| url.to_str().unwrap().to_owned());
        let bytes = to_bytes(response.into_body(), PAGE_BYTES_MAX).await.unwrap();
        Page { status, location, html: String::from_utf8(bytes.to_vec()).unwrap() }
    }
}

impl Page {
    /// URLs of the links to pages below `path`, in their order.
    pub(crate) fn links(&self, path: &str) -> Vec<String> {
        let prefix = format!("href=\"{path}?");
        let parts = self.html.split(&prefix).skip(1);
        parts.map(|part| format!("{path}?{}", part.split('"').next().unwrap().replace("&amp;", "&"))).collect()
    }

    /// Ids of the calls in the table, in their order.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.links("/call").iter().map(|url| id_in(url)).collect()
    }

    /// URL of the next page.
    pub(crate) fn next(&self) -> Option<String> {
        let (before, _) = self.html.split_once("rel=\"next\"").or_else(|| self.html.split_once("rel=next"))?;
        let (_, tag) = before.rsplit_once("<a ")?;
        let after = self.html.get(before.len()..)?;
        let whole = format!("{tag}{}", after.split('>').next()?);
        let (_, url) = whole.split_once("href=\"")?;
        Some(url.split('"').next()?.replace("&amp;", "&"))
    }
}

/// The id in a URL of a call or an event.
pub(crate) fn id_in(url: &str) -> String {
    let (_, query) = url.split_once('?').unwrap();
    let (_, id) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "id").unwrap();
    id.into_owned()
}
