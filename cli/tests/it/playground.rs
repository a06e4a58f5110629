//! The page Try of `switchhook dev`, as a browser without JavaScript uses it.

use std::time::{Duration, Instant};

use crate::stack::{Stack, text};

/// A browser that has opened the link of the ready line.
pub(crate) struct Browser<'a> {
    stack: &'a Stack,
    host: String,
    cookie: String,
}

/// Answer to a request: status, target of a redirect, and body.
struct Answer {
    status: u16,
    location: String,
    cookie: String,
    body: String,
}

impl<'a> Browser<'a> {
    pub(crate) fn open(stack: &'a Stack) -> Self {
        let link = stack.link.strip_prefix("http://").expect("a link");
        let (host, path) = link.split_once('/').expect("a path");
        let browser = Self { stack, host: host.to_owned(), cookie: String::new() };
        let opened = browser.send("GET", &format!("/{path}"), &[("sec-fetch-site", "none")], "");
        assert_eq!((opened.status, opened.location.as_str()), (200, ""));
        Self { cookie: opened.cookie.split(';').next().expect("a cookie").to_owned(), ..browser }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = http::Request::builder().method(method).uri(format!("{}{path}", self.stack.url));
        let usual = [("host", self.host.as_str()), ("sec-fetch-mode", "navigate"), ("cookie", self.cookie.as_str())];
        for (name, value) in usual.iter().chain(headers) {
            request = request.header(*name, *value);
        }
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .into();
        let mut answer = if body.is_empty() {
            agent.run(request.body(()).expect("a request")).expect("an answer")
        } else {
            agent.run(request.body(body.to_owned()).expect("a request")).expect("an answer")
        };
        let header = |name: &str| answer.headers().get(name).map_or(String::new(), |value| text(value.as_bytes()));
        let (location, cookie) = (header("location"), header("set-cookie"));
        let body = answer.body_mut().read_to_string().expect("a body");
        Answer { status: answer.status().as_u16(), location, cookie, body }
    }

    fn get(&self, path: &str) -> String {
        let answer = self.send("GET", path, &[("sec-fetch-site", "same-origin")], "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Presses the button of the page Try that does this.
    pub(crate) fn press(&self, what: &str) {
        let page = self.get("/try");
        let token = between(&page, "name=\"token\" value=\"", "\"");
        let form = format!("token={token}&do={}", what.replace(' ', "+"));
        let answer = self.post(&form);
        assert_eq!(answer.status, 303, "{what}: {}", answer.body);
    }

    fn post(&self, form: &str) -> Answer {
        let origin = format!("http://{}", self.host);
        let headers = [
            ("sec-fetch-site", "same-origin"),
            ("origin", origin.as_str()),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        self.send("POST", "/try", &headers, form)
    }
}

/// Returns the text between two others, at their first occurrence.
fn between<'a>(page: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = page.split_once(before).unwrap_or_else(|| panic!("{before} is not in\n{page}"));
    rest.split_once(after).map(|(found, _)| found).unwrap_or_else(|| panic!("{after} is not in\n{rest}"))
}

#[test]
fn newcomer_sees_a_confirmed_call_in_three_clicks() {
    let stack = Stack::start(&[]);
    let started = Instant::now();
    let browser = Browser::open(&stack);
    assert!(browser.get("/").contains("href=\"/try\""), "the navigation leads to Try");

    let page = browser.get("/try");
    let token = between(&page, "name=\"token\" value=\"", "\"");
    let played = browser.post(&format!("token={token}&do=play&story=Late+ending"));
    assert_eq!((played.status, played.location.as_str()), (303, "/try"), "{}", played.body);

    let page = browser.get("/try");
    assert!(page.contains("the call ended as completed, Confirmed"), "{page}");
    let id = between(&page, "href=\"/call?id=appointment%3Alate_", "\"");
    let call = browser.get(&format!("/call?id=appointment%3Alate_{id}"));
    assert!(call.contains("Confirmed"), "{call}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn form_of_another_page_is_refused() {
    let stack = Stack::start(&[]);
    let browser = Browser::open(&stack);
    for form in ["do=scheduler", "token=x&do=scheduler", ""] {
        assert_eq!(browser.post(form).status, 403, "{form}");
    }
    let page = browser.get("/try");
    let token = between(&page, "name=\"token\" value=\"", "\"");
    let form = format!("token={token}&do=scheduler");
    for foreign in [("origin", "https://example.com"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(browser.send("POST", "/try", &[foreign], &form).status, 403, "{foreign:?}");
    }
    assert_eq!(browser.post(&format!("token={token}&do=something")).status, 400);
    assert_eq!(browser.post(&form).status, 303);
}
