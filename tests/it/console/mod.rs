//! The console: its pages, called as a browser calls them, over a whole stack in virtual time.

#![expect(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod call;
mod dials;
mod links;
mod lists;
mod repair;
mod searches;

mod hostile;
mod ids;
mod killed;
mod large;
mod ledger;
mod masked;
mod problems;
mod ringing;
mod routes;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::header::{COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use http::{Method, Request, StatusCode};
use switchhook_console::{Console, Options};
use switchhook_operate::Stack;
use switchhook_tests::World;
use tower::ServiceExt;

use crate::repair::stack_for;

const PAGES_HOST: &str = "switchhook.localhost:8788";

/// A console of the world's stack.
pub(crate) fn console(world: &World, allows_changes: bool) -> Console {
    // `tests/e2e/test_service_models.py` holds the requests of both against the policies of the template.
    let sender = if allows_changes { "console-changes" } else { "console" };
    console_of(stack_for(world, sender), allows_changes)
}

/// A console of a stack.
pub(crate) fn console_of(stack: Stack, allows_changes: bool) -> Console {
    let options = Options { host: PAGES_HOST.to_owned(), allows_changes, is_frozen: false, look_first: None };
    Console::new(stack, options)
}

/// A browser with a session.
pub(crate) struct Browser {
    router: Router,
    cookie: String,
}

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) status: StatusCode,
    /// Address that the browser goes to next.
    pub(crate) location: Option<String>,
    pub(crate) html: String,
}

/// Form of a page: its address and its hidden fields.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) action: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Browser {
    /// Opens a console by its link.
    pub(crate) async fn open(console: &Console) -> Self {
        let router = console.router();
        let link = console.link().unwrap();
        let path = link.strip_prefix(&format!("http://{PAGES_HOST}")).unwrap();
        let request = Request::get(path).header(HOST, PAGES_HOST).header("sec-fetch-mode", "navigate");
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap();
        Self { router, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    pub(crate) async fn get(&self, path: &str) -> Page {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = Request::post(path)
            .header(ORIGIN, format!("http://{PAGES_HOST}"))
            .header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    /// Sends a request with an empty form.
    pub(crate) async fn request(&self, method: &Method, path: &str) -> Page {
        let request = Request::builder().method(method).uri(path).header(ORIGIN, format!("http://{PAGES_HOST}"));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// Opens the stream that tells a page when to read again.
    pub(crate) async fn stream(&self, page: &str) -> Body {
        let request = self.signed_in(Request::get(format!("/live?page={page}")).body(Body::empty()).unwrap());
        self.router.clone().oneshot(request).await.unwrap().into_body()
    }

    /// Sends a form with further fields, as if a user had filled them in.
    pub(crate) async fn submit(&self, form: &Form, filled: &[(&str, &str)]) -> Page {
        let hidden = form.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = hidden.chain(filled.iter().copied()).collect();
        self.post(&form.action, &fields).await
    }

    fn signed_in(&self, mut request: Request<Body>) -> Request<Body> {
        let headers = request.headers_mut();
        headers.insert(HOST, PAGES_HOST.parse().unwrap());
        headers.insert(COOKIE, self.cookie.parse().unwrap());
        headers.insert("sec-fetch-site", "same-origin".parse().unwrap());
        request
    }

    async fn send(&self, request: Request<Body>) -> Page {
        let response = self.router.clone().oneshot(self.signed_in(request)).await.unwrap();
        let status = response.status();
        let location = response.headers().get(LOCATION).map(|to| to.to_str().unwrap().to_owned());
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Page { status, location, html: String::from_utf8(body.to_vec()).unwrap() }
    }
}

impl Page {
    /// Returns the first form whose button has this label.
    pub(crate) fn form(&self, label: &str) -> Form {
        let forms = self.html.split("<form").skip(1).map(|rest| rest.split("</form>").next().unwrap());
        let label = format!(">{label}</button>");
        let form = forms.into_iter().find(|form| form.contains(&label));
        let form = form.unwrap_or_else(|| panic!("no form has the button {label}: {}", self.html));
        let action = attribute(form, "action");
        let inputs = form.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap());
        let hidden = inputs.filter(|input| input.contains("type=\"hidden\""));
        Form { action, fields: hidden.map(|input| (attribute(input, "name"), attribute(input, "value"))).collect() }
    }

    pub(crate) fn contains(&self, text: &str) -> bool {
        self.html.contains(text)
    }

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

fn attribute(tag: &str, name: &str) -> String {
    let (_, rest) = tag.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("{tag} has no {name}"));
    let value = rest.split('"').next().unwrap();
    value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// The id in a URL of a call or an event.
pub(crate) fn id_in(url: &str) -> String {
    let (_, query) = url.split_once('?').unwrap();
    let (_, id) = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "id").unwrap();
    id.into_owned()
}
