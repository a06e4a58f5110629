//! Masking over all samples and all pages: no phone number, name or transcript is in a page, a URL, a title or the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use http::StatusCode;
use serde_json::Value;
use switchhook_domain::Provider;
use switchhook_providers::samples;
use switchhook_tests::{KEY, World};

use super::{Browser, Page, console};
use crate::outbound::{call_request, create};

/// Pages from which all others are reached.
const STARTS: [&str; 16] = [
    "/",
    "/calls",
    "/calls?tab=in_flight",
    "/calls?tab=waiting",
    "/calls?tab=stuck",
    "/calls?tab=in_doubt",
    "/calls?tab=settled",
    "/events?since=2026-01-01T00:00",
    "/repair",
    "/repair?tab=dead-letters",
    "/repair?tab=quarantined",
    "/repair?tab=retrying",
    "/repair?tab=conflicts",
    "/repair?tab=relay",
    "/repair?tab=audit",
    "/dials",
];
/// Fields with a person's name or number, a transcript, or the address of a recording.
const PERSONAL: [&str; 14] = [
    "agentname",
    "callsummary",
    "content",
    "customername",
    "from",
    "message",
    "name",
    "recordingurl",
    "stereorecordingurl",
    "summary",
    "to",
    "transcript",
    "publiclogurl",
    "recordingurls",
];
/// Texts of a webhook, each with its field. The fields of a form, and all texts in JSON.
fn texts(body: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    match serde_json::from_str::<Value>(body) {
        Ok(json) => walk("", &json, &mut found),
        Err(_) => found.extend(form_urlencoded::parse(body.as_bytes()).into_owned()),
    }
    found
}

fn walk(field: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((field.to_owned(), text.clone())),
        Value::Array(values) => values.iter().for_each(|value| walk(field, value, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| walk(name, value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// True if a text is about a person: by its field, or by its form.
fn is_personal(field: &str, text: &str) -> bool {
    let plain: String = field.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_ascii_lowercase();
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let is_number = text.starts_with('+') && digits >= 7;
    let is_address = text.contains('@') || text.starts_with("sip:") || text.contains("://");
    let is_said = text.split_whitespace().count() >= 4;
    let is_by_field = PERSONAL.contains(&plain.as_str()) && text.chars().count() >= 4;
    is_number || is_address || is_said || is_by_field
}

/// Texts that no page may show. A long one is looked for by its parts, because a page could break its lines.
fn secrets(body: &str) -> BTreeSet<String> {
    let mut secrets = BTreeSet::new();
    for (field, text) in texts(body) {
        // A time such as `Mon, 20 Oct 2025 12:13:56 +0000` has words, too.
        if text.ends_with(" +0000") || !is_personal(&field, &text) {
            continue;
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if words.len() > 4 {
            let parts = words.chunks(4).filter(|part| part.len() > 2);
            secrets.extend(parts.map(|part| part.join(" ")));
        } else {
            secrets.insert(text.trim().to_owned());
        }
        // A number is looked for without its plus sign, too.
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        if text.starts_with('+') && digits.len() >= 7 {
            secrets.insert(digits);
        }
    }
    secrets
}

/// Text of a page as a reader sees it, and as it was sent.
fn shown(page: &Page) -> String {
    let plain = page.html.replace("&quot;", "\"").replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">");
    format!("{}\n{plain}", page.html)
}

/// Reads all pages that the starts lead to.
async fn crawl(browser: &Browser) -> BTreeMap<String, String> {
    let mut left: VecDeque<String> = STARTS.map(str::to_owned).into();
    let mut read = BTreeMap::new();
    while let Some(url) = left.pop_front() {
        if read.contains_key(&url) || read.len() > 1_000 {
            continue;
        }
        let page = browser.get(&url).await;
        // A recorded event may name a call that no other event has reported.
        let is_missing_call = url.starts_with("/call?") && page.status == StatusCode::NOT_FOUND;
        assert!(page.status == StatusCode::OK || is_missing_call, "{url}: {}", page.html);
        for path in ["/call", "/event", "/run", "/plan"] {
            left.extend(page.links(path));
        }
        // The lists go on for as long as events are kept.
        left.extend(page.next().filter(|_| !page.calls().is_empty() || !page.links("/event").is_empty()));
        read.insert(url, shown(&page));
    }
    read
}

fn assert_hidden(pages: &BTreeMap<String, String>, secrets: &BTreeMap<String, &str>) {
    let mut shown: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for (url, html) in pages {
        for (secret, sample) in secrets {
            if html.contains(secret.as_str()) || url.contains(secret.as_str()) {
                shown.insert(secret, (sample, url));
            }
        }
    }
    assert!(shown.is_empty(), "texts of persons, each with its webhook and a page that shows it: {shown:#?}");
}

#[tokio::test(start_paused = true)]
async fn no_page_shows_what_a_provider_reports_about_a_person() {
    let world = World::new();
    let mut hidden: BTreeMap<String, &str> = BTreeMap::new();
    for (name, body) in samples() {
        let provider: Provider = name.split('/').next().unwrap().parse().unwrap();
        let (status, answer) = world.post_signed(provider, KEY, "", body.as_bytes()).await;
        assert_eq!(status, StatusCode::OK, "{name}: {answer}");
        hidden.extend(secrets(body).into_iter().map(|secret| (secret, *name)));
    }
    // The same event with another body, an event that cannot be read, and a call with metadata.
    let body = samples().iter().find(|(name, _)| *name == "retell/call_ended").unwrap().1;
    let other =
        body.replace("\"transcript\"", "\"transcript\": \"Agent: my card ends in four three two one\", \"was\"");
    world.post_signed(Provider::Retell, KEY, "", other.as_bytes()).await;
    world
        .post_signed(Provider::Generic, KEY, "", b"{\"to\": \"+447700900777\", \"said\": \"Yes my name is Ada Hopper\"")
        .await;
    let mut request = call_request("confirms");
    request["to"] = "+447700900888".into();
    request["metadata"]["note"] = "Mrs Ada Hopper is hard of hearing".into();
    create(&world, &request).await;
    for text in ["447700900777", "447700900888", "15550100", "my card ends in", "Ada Hopper", "hard of hearing", KEY] {
        hidden.insert(text.to_owned(), "the test");
    }
    assert!(hidden.len() > 50, "few texts are looked for: {hidden:?}");
    world.quiesce().await;

    let browser = Browser::open(&console(&world, true)).await;
    let pages = crawl(&browser).await;
    let events = pages.keys().filter(|url| url.starts_with("/event?")).count();
    let calls = pages.keys().filter(|url| url.starts_with("/call?")).count();
    assert!(events > 40 && calls > 10, "{events} events and {calls} calls were read");
    assert_hidden(&pages, &hidden);
    let log = BTreeMap::from([("the log".to_owned(), world.log_text())]);
    assert_hidden(&log, &hidden);
}
