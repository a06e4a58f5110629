//! `switchhook fake`: requests as a dialer sends them, and webhooks to a stack.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stack::{Stack, agent, read_request, signal, switchhook, text, wait_for};

/// A running fake provider. It is killed when the value is dropped.
struct Fake {
    child: Child,
    url: String,
}

impl Fake {
    fn start(webhooks_to: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_switchhook"))
            .args(["fake", "--port", "0", "--key", "-", "--delivery-faults", "none", "--seed", "1"])
            .args(["--webhooks-to", webhooks_to])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        writeln!(child.stdin.take().expect("standard input"), "a key for Retell").expect("the key is read");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("standard output");
        BufReader::new(out).read_line(&mut line).expect("a ready line");
        let url = line.strip_prefix("listening on ").expect("a ready line").trim_end().to_owned();
        Self { child, url }
    }

    /// Places a call with this behaviour. Returns the status and the body of the response.
    fn dial(&self, call_id: &str, behaviour: &str) -> (u16, Value) {
        let order = json!({
            "from_number": "+15550100",
            "to_number": "+15550190",
            "metadata": {"switchhook_call_id": call_id, "switchhook_attempt": "1", "fake": behaviour},
        });
        let request = agent().post(format!("{}/v2/create-phone-call", self.url)).header("authorization", "Bearer k");
        let mut answer = request.send(order.to_string()).expect("an answer");
        let body = answer.body_mut().read_to_string().expect("a body");
        (answer.status().as_u16(), serde_json::from_str(&body).unwrap_or_default())
    }

    fn get(&self, path: &str) -> Value {
        let request = agent().get(format!("{}{path}", self.url)).header("authorization", "Bearer k");
        let body = request.call().expect("an answer").body_mut().read_to_string().expect("a body");
        serde_json::from_str(&body).expect("JSON")
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn call_that_is_placed_reaches_a_stack_by_signed_webhooks() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    let fake = Fake::start(&format!("{}/webhooks/retell", stack.url));

    let (status, placed) = fake.dial("call-1", "busy");
    assert_eq!(status, 201, "{placed}");
    let id = placed["call_id"].as_str().expect("an id");
    assert_eq!(fake.get(&format!("/v2/get-call/{id}"))["call_id"], id);

    wait_for("the busy call", || match stack.get("/call?id=call-1") {
        Some(call) if call["lifecycle"] == "busy" => Ok(()),
        call => Err(format!("{call:?}")),
    });
    let dials = fake.get("/dials");
    assert_eq!((&dials["duplicate_dials"], dials["dials"].as_array().map(Vec::len)), (&json!(0), Some(1)));
    assert_eq!(dials["dials"][0]["call_id"], "call-1");
}

#[test]
fn answer_that_is_lost_leaves_the_call_placed() {
    let fake = Fake::start("http://127.0.0.1:1/webhooks/retell");
    assert_eq!(fake.dial("call-1", "response_lost"), (504, Value::Null));
    assert_eq!(fake.get("/dials")["dials"][0]["behaviour"], "response_lost");
    assert_eq!(fake.dial("call-2", "invalid").0, 422);
    assert_eq!(fake.get("/dials")["dials"].as_array().map(Vec::len), Some(1));
}

/// A wrong key, or a wrong URL, would look like a provider that sends nothing.
#[test]
fn webhook_that_is_not_accepted_is_told_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/webhooks/retell", listener.local_addr().expect("an address"));
    let mut fake = Fake::start(&url);
    fake.dial("call-1", "busy");
    // A webhook that is not accepted is sent again after ten seconds.
    for _ in 0..2 {
        let (mut client, _) = listener.accept().expect("a webhook");
        drop(read_request(&mut client));
        let refusal = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        client.write_all(refusal.as_bytes()).expect("the answer is sent");
    }
    // The port is closed, so the next webhook has another problem.
    drop(listener);
    let errors = BufReader::new(fake.child.stderr.take().expect("standard error"));
    let mut lines = errors.lines().map(|line| line.expect("UTF-8")).filter(|line| line.contains("not accepted"));
    assert_eq!(lines.next(), Some(format!("switchhook: a webhook was not accepted: {url} answered 401")));
    assert!(lines.next().expect("another line").contains("no answer from"), "the second 401 is not told");
}

#[test]
fn who_brings_no_key_is_refused() {
    let fake = Fake::start("http://127.0.0.1:1/webhooks/retell");
    let answer = agent().get(format!("{}/v2/get-call/x", fake.url)).call().expect("an answer");
    assert_eq!(answer.status().as_u16(), 401);
}

#[test]
fn sigterm_stops_it_cleanly_though_a_webhook_waits_for_its_answer() {
    // A server that accepts connections and never responds.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let mut fake = Fake::start(&format!("http://{address}/webhooks/retell"));
    fake.dial("call-1", "busy");
    let (_waiting, _) = silent.accept().expect("a webhook");

    signal("-TERM", fake.child.id());
    let begun = Instant::now();
    assert_eq!(fake.child.wait().expect("it ends").code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10));
    let mut rest = String::new();
    fake.child.stdout.take().expect("standard output").read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(rest, "", "standard output contains only the ready line");
}

#[test]
fn port_that_is_taken_is_said_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let output = switchhook(&["fake", "--port", &port, "--key", "k", "--webhooks-to", "http://h/webhooks/retell"]);
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{errors}");
    assert!(errors.contains("could not listen") && errors.contains(&port), "{errors}");
}
