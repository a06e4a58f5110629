//! Operators' access to a running `switchhook dev`: its names, AWS requests, schedules, and the file that names it.

use serde_json::{Value, json};
use switchhook_aws::sdk::Patience;
use switchhook_domain::{CallId, JobState, Timestamp};
use switchhook_operate::{Address, Error};

use crate::stack::{CREATE_CALL, Scratch, Stack, agent, switchhook, text, wait_for};

pub(crate) fn connect(url: &str) -> Result<switchhook_operate::Stack, Error> {
    block_on(switchhook_operate::Stack::connect(&Address::Local { url: url.to_owned() }, Patience::Short))
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

fn with_a_call() -> (Scratch, Stack) {
    let (scratch, stack) = Stack::quiet();
    let (code, _, errors) = stack.send_sample("retell/call_ended", "a key for Retell");
    assert_eq!(code, Some(0), "{errors}");
    (scratch, stack)
}

#[test]
fn operators_clients_reach_the_tables_the_queues_and_the_bus() {
    let (_scratch, stack) = with_a_call();
    let operated = connect(&format!("{}/", stack.url)).expect("a stack");
    assert_eq!(operated.names.api_url, stack.url);
    let id = CallId::new("appointment:appt_201");
    let read = || block_on(operated.calls.get_call(&id)).expect("the table answers");
    let call = wait_for("the call", || read().ok_or_else(|| "no row".to_owned()));
    assert_eq!(call.job.state(), JobState::Completed);
    for queue in [&operated.events_queue, &operated.dlq, &operated.dial_queue, &operated.due_queue] {
        // A message leaves the queue shortly after its work is done.
        wait_for("an empty queue", || match block_on(queue.depth()).expect("the queue answers") {
            0 => Ok(()),
            more => Err(more.to_string()),
        });
    }
    assert!(block_on(operated.bus.publish([])).is_err(), "the bus rejects an empty batch, as EventBridge does");
    assert!(operated.now().as_millis() > 1_700_000_000_000);
}

#[test]
fn metrics_of_a_decision_can_be_read_although_its_line_is_not_shown() {
    let (_scratch, stack) = with_a_call();
    let path = "/metrics-data?since=2020-01-01T00:00:00Z";
    let sums_of = |all: &Value, name: &str| -> Vec<Value> {
        let series = all["series"].as_array().expect("series");
        series.iter().filter(|one| one["name"] == name).map(|one| one["points"][0][1].clone()).collect()
    };
    // The consumer takes the event from the queue after ingress has answered.
    let all = wait_for("the metrics of ingress, of its provider, and of the consumer", || {
        let all = stack.get(path).ok_or("no metrics")?;
        if sums_of(&all, "received") == [1.0, 1.0, 1.0] { Ok(all) } else { Err(all.to_string()) }
    });
    let sums = |name: &str| sums_of(&all, name);
    assert_eq!(sums("accepted"), [1.0]);
    assert_eq!(sums("5xx"), [0.0]);
    let later = stack.get("/metrics-data?since=2100-01-01T00:00:00Z").expect("the metrics");
    assert_eq!(later["series"], json!([]));
}

#[test]
fn command_finds_the_running_stack_and_no_other() {
    let (_scratch, stack) = with_a_call();
    let shown = || stack.switchhook(&["show", "appointment:appt_201"]);
    wait_for("the call", || {
        let output = shown();
        if output.status.code() == Some(0) { Ok(()) } else { Err(text(&output.stderr)) }
    });

    let file = std::fs::read_to_string(stack.state_file()).expect("the file");
    let content: Value = serde_json::from_str(&file).expect("JSON");
    assert_eq!(content["to"], *stack.url);
    let path = stack.state_file();
    stack.stop("-TERM");
    assert!(!path.exists(), "the stack removes its file at its end");

    let output = switchhook(&["show", "appointment:appt_201"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no stack is chosen"), "{}", text(&output.stderr));
}

#[test]
fn file_of_a_killed_stack_is_ignored() {
    let mut stack = Stack::start(&[]);
    stack.kill();
    assert!(stack.state_file().exists());
    let output = stack.switchhook(&["show", "c"]);
    assert!(text(&output.stderr).contains("no stack is chosen"), "{}", text(&output.stderr));
}

#[test]
fn command_takes_none_of_two_stacks_and_finds_the_first_when_the_second_has_stopped() {
    let first = Stack::start(&[]);
    let mut killed = first.start_another(&[]);
    let second = first.start_another(&[]);
    killed.kill();
    let list = || {
        let output = first.switchhook(&["call", "list"]);
        (output.status.code(), text(&output.stderr))
    };
    let (code, errors) = list();
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("choose one with --to") && !errors.contains(&killed.url), "{errors}");
    assert!(errors.contains(&first.url) && errors.contains(&second.url), "{errors}");
    second.stop("-TERM");
    assert_eq!(list(), (Some(0), String::new()));
}

#[test]
fn schedules_run_by_hand() {
    let (_scratch, stack) = with_a_call();
    for schedule in ["scheduler", "reconciler", "drift"] {
        let answer = agent().post(format!("{}/run/{schedule}", stack.url)).send_empty().expect("an answer");
        assert_eq!(answer.status(), 200, "{schedule}");
    }
    let answer = agent().post(format!("{}/run/dialer", stack.url)).send_empty().expect("an answer");
    assert_eq!(answer.status(), 404);
}

#[test]
fn reconciler_and_drift_check_tell_what_they_did() {
    let (_scratch, stack) = with_a_call();
    let output = stack.switchhook(&["reconcile"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.starts_with("the reconciler has run\n") && printed.contains("swept minutes"), "{printed}");
    let swept_until = printed.lines().find_map(|line| line.trim().strip_prefix("swept until"));
    let swept_until = Timestamp::parse_rfc3339(swept_until.expect("a time").trim());
    assert!(swept_until.is_some_and(|at| at.as_millis() > 1_760_000_000_000), "{printed}");
    let output = stack.switchhook(&["reconcile", "--drift", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert!(report["checked"].is_u64(), "{report}");
}

#[test]
fn status_answers_three_questions_and_calls_nothing_fine_that_it_cannot_read() {
    let (_scratch, stack) = with_a_call();
    let output = stack.switchhook(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let questions = status["questions"].as_array().expect("questions");
    let asked: Vec<&str> = questions.iter().map(|question| question["question"].as_str().expect("a text")).collect();
    assert_eq!(asked, ["Healthy?", "Backlog?", "Poison?"]);
    let all_fine = questions.iter().all(|question| question["answer"] == "ok");
    assert_eq!(output.status.code(), Some(if all_fine { 0 } else { 1 }), "{status}");
    let line = |name: &str| {
        let lines = questions.iter().flat_map(|question| question["evidence"].as_array().expect("lines"));
        lines.clone().find(|line| line["name"] == name).unwrap_or_else(|| panic!("{name} is not in {status}"))
    };
    assert_eq!(line("dead letters")["level"], "ok");
    assert_eq!(line("quarantined")["text"], "0");
    assert_eq!(line("provider circuits")["text"], "all closed");
    assert_eq!(line("reconciler runs")["level"], "unknown", "its first run is an hour away");
    assert_eq!(line("sweep lag")["level"], "unknown", "nothing was swept yet");

    assert_eq!(stack.switchhook(&["reconcile"]).status.code(), Some(0));
    let output = stack.switchhook(&["status"]);
    let printed = text(&output.stdout);
    assert!(printed.starts_with("local in us-east-1, ") && printed.contains("\nPoison?   "), "{printed}");
    assert!(!printed.contains("no sweep has run yet"), "{printed}");
    assert!(!printed.contains("could not be read") && !printed.contains(" -0 "), "{printed}");
}

#[test]
fn nothing_is_stuck_in_a_new_stack() {
    let (_scratch, stack) = with_a_call();
    let output = stack.switchhook(&["stuck"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("no call is stuck"), "{}", text(&output.stdout));
}

#[test]
fn call_that_waits_too_long_is_stuck() {
    // Calls of a provider without a rate wait.
    let stack = Stack::start(&["--dial-rates", "vapi=1", "--tick", "1h"]);
    let output = stack.switchhook(&CREATE_CALL);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = wait_for("a stuck call", || {
        let output = stack.switchhook(&["stuck", "--for", "100ms"]);
        let printed = text(&output.stdout);
        if output.status.code() == Some(1) { Ok(printed) } else { Err(printed + &text(&output.stderr)) }
    });
    assert!(printed.contains("overdue, job PENDING, retell") && printed.contains("next  the scheduler"), "{printed}");
    assert!(!printed.contains("7700900"), "{printed}");
}

#[test]
fn providers_are_listed_and_a_file_is_checked() {
    let (scratch, stack) = with_a_call();
    let output = stack.switchhook(&["providers", "list"]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(printed.contains("retell: available, 0 in flight\n  configured  1 key, places up to 5 calls"), "{printed}");
    assert!(!printed.contains("a key for Retell") && !printed.contains("telnyx"), "{printed}");

    let file = scratch.providers();
    let output = switchhook(&["providers", "check", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), "retell: 1 key, places calls\ngeneric: 1 key, places no calls\n");
    // Some editors begin a file with a byte order mark.
    let marked = format!("\u{feff}{}", std::fs::read_to_string(&file).expect("the file is there"));
    std::fs::write(&file, marked).expect("the file is written");
    let path = file.to_str().expect("UTF-8");
    assert_eq!(switchhook(&["providers", "check", path]).stdout, output.stdout);
    let send = ["send", "--provider", "retell", "--providers", path, "--sample", "retell/call_started"];
    assert_eq!(stack.switchhook(&send).status.code(), Some(0));
    std::fs::write(&file, r#"{"retell": {"keys": []}, "vapi": {"key": ["hunter2"]}}"#).expect("the file is written");
    let output = switchhook(&["providers", "check", file.to_str().expect("UTF-8")]);
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{errors}");
    assert!(errors.contains("retell.keys") && errors.contains("vapi") && !errors.contains("hunter2"), "{errors}");
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = switchhook(&["completions", shell]);
        let script = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0));
        assert!(["status", "reconcile", "providers"].iter().all(|verb| script.contains(verb)), "{shell}");
    }
}

#[test]
fn providers_file_is_checked_compared_and_stored() {
    let (scratch, stack) = with_a_call();
    let path = scratch.0.join("put.json");
    let put = |file: &str, options: &[&str]| {
        std::fs::write(&path, file).expect("the file is written");
        let output = stack.switchhook(&[&["providers", "put", path.to_str().expect("UTF-8")], options].concat());
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(!format!("{printed}{errors}").contains("hunter2"), "{printed}{errors}");
        (output.status.code(), printed, errors)
    };
    let listed = || text(&stack.switchhook(&["providers", "list"]).stdout);

    let (code, printed, errors) = put(r#"{"generic": {"key": ["hunter2"]}}"#, &["--yes"]);
    assert_eq!((code, printed.as_str()), (Some(1), ""), "{errors}");
    assert!(errors.contains("generic.keys: missing"), "{errors}");
    let wrong =
        [(r#"{"generic": {"key": ["hunter2"]}}"#, "generic.keys: missing"), (r#"{"hunter2"#, "not JSON at line 1")];
    for (file, problem) in wrong {
        let (code, printed, errors) = put(file, &["--yes", "--json"]);
        assert_eq!((code, errors.as_str()), (Some(1), ""), "{printed}");
        let report: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
        assert_eq!((&report["plan"], &report["stored"]), (&json!(null), &json!([])));
        assert!(report["problems"].to_string().contains(problem), "{report:#}");
    }

    let rotated = r#"{"generic": {"keys": ["hunter2 and more, so that it is long enough", "the generic key, which is as long as it must be"]}}"#;
    let (code, printed, errors) = put(rotated, &[]);
    let expected = "generic: webhook keys changed\nretell: webhook keys kept, dial account kept\n\n\
                    Nothing has changed. To store the file, add --yes\n";
    assert_eq!((code, printed.as_str(), errors.as_str()), (Some(0), expected, ""));
    assert!(listed().contains("configured  1 key, places no calls"), "{}", listed());

    let (code, printed, errors) = put(rotated, &["--yes"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        printed.ends_with("stored the webhook keys; running functions use them within five minutes, and a new webhook key within ten seconds\n"),
        "{printed}"
    );
    assert!(listed().contains("configured  2 keys, places no calls"), "{}", listed());
    let (_, printed, _) = put(rotated, &["--yes"]);
    assert!(printed.ends_with("the secrets hold this already\n"), "{printed}");
    let (_, printed, _) = put(rotated, &["--json"]);
    let report: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    assert_eq!((report["plan"].is_object(), &report["problems"]), (true, &json!([])), "{report:#}");

    let vapi = r#"{"vapi": {"keys": ["hunter2 and more"], "dial": {"api_key": "hunter2 and more", "assistant_id": "a", "phone_number_id": "p"}}}"#;
    let (_, printed, errors) = put(vapi, &["--replace", "--yes"]);
    let expected = "generic: webhook keys removed\nretell: webhook keys removed, dial account removed\n\
                    vapi: webhook keys added, dial account added\n\
                    stored the webhook keys and the dial accounts; running functions use them within five minutes, and a new webhook key within ten \
                    seconds\n";
    assert_eq!(printed, expected);
    assert!(errors.contains("vapi has an account, but no rate in DialRates: its calls wait"), "{errors}");
    let (_, _, errors) = put(&vapi.replace("\"vapi\"", "\"vapi-eu\""), &[]);
    assert!(errors.contains("the API refuses its calls, or they wait if it had one before"), "{errors}");

    let acme = r#"{"x-acme": {"keys": ["hunter2 and more, so that it is long enough"], "reports_outcome": true,
        "signature": {"scheme": "hmac", "header": "x-acme-signature", "signed": "{body}"},
        "events": {"call_id": "/id", "type": "/type", "rules": [{"when": {"type": "over"}, "event": "completed"}]}}}"#;
    let (code, _, errors) = put(acme, &[]);
    assert_eq!(code, Some(0), "{errors}");
    let warning =
        "x-acme reports an outcome, but OutcomeProviders does not name it: its calls are settled by their ending";
    assert!(errors.contains(warning), "{errors}");
}

#[test]
fn file_that_is_too_large_for_a_secret_is_refused_before_anything_is_stored() {
    let (scratch, stack) = with_a_call();
    let path = scratch.0.join("put.json");
    let answer = json!({"call_inbound": {"text": "a".repeat(65_536)}});
    let retell = json!({"retell": {"keys": ["hunter2 and more"], "question": {"answer": answer}}});
    std::fs::write(&path, retell.to_string()).expect("the file is written");
    for options in [&[][..], &["--yes"], &["--yes", "--replace"]] {
        let output = stack.switchhook(&[&["providers", "put", path.to_str().expect("UTF-8")], options].concat());
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(3), ""), "{errors}");
        let is_told = errors.contains("the secret of the webhook keys would have 65")
            && errors.contains("Secrets Manager stores at most 65536: shorten its entries");
        assert!(is_told && !errors.contains("hunter2"), "{errors}");
    }
    let audit = text(&stack.switchhook(&["audit", "list"]).stdout);
    assert!(!audit.contains("providers"), "nothing was begun: {audit}");
}

#[test]
fn secret_that_is_no_object_is_only_replaced_as_a_whole() {
    let (scratch, stack) = with_a_call();
    let operated = connect(&stack.url).expect("a stack");
    let secret = &operated.names.webhook_keys_secret;
    block_on(operated.secrets.write(secret, "{hunter2".to_owned())).expect("the secret is written");
    let output = stack.switchhook(&["providers", "list"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("webhook keys: not JSON at line 1"), "{}", text(&output.stderr));

    let file = scratch.providers();
    let put = ["providers", "put", file.to_str().expect("UTF-8"), "--yes"];
    let output = stack.switchhook(&put);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("refused: the secret of the"), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("add --replace"), "{}", text(&output.stderr));
    let output = stack.switchhook(&[&put[..], &["--replace"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("generic: webhook keys added"), "{}", text(&output.stdout));
}

/// Sends a request with these headers, and returns its status.
fn status(stack: &Stack, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let mut request = http::Request::builder().method(method).uri(format!("{}{path}", stack.url));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = if body.is_empty() {
        agent().run(request.body(()).expect("a request"))
    } else {
        agent().run(request.body(body.to_owned()).expect("a request"))
    };
    answer.expect("an answer").status().as_u16()
}

#[test]
fn foreign_pages_are_refused() {
    let (_scratch, mut stack) = with_a_call();
    let call = r#"{"provider":"retell","from":"+442079460018","to":"+447700900120"}"#;
    let json = ("content-type", "application/json");
    for (method, path, body) in [
        ("GET", "/stack", ""),
        ("POST", "/aws", "{}"),
        ("POST", "/run/scheduler", ""),
        ("GET", "/calls", ""),
        ("GET", "/domain-events", ""),
        ("POST", "/calls", call),
        ("POST", "/call/trigger?id=c", ""),
        ("PUT", "/do-not-call?number=%2B447700900120", ""),
    ] {
        for foreign in [
            ("host", "example.com"),
            ("origin", "https://example.com"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:1"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(status(&stack, method, path, &[foreign, json], body), 403, "{method} {path} with {foreign:?}");
        }
    }
    let line = stack.error_line("refused ");
    assert!(line.contains("refused GET") && line.contains("/stack") && line.contains("example.com"), "{line}");
    // A request of a form on another page, from an old browser that does not say where the page is from.
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let sent = [("content-type", content_type)];
        assert_eq!(status(&stack, "POST", "/calls", &sent, call), 415, "{content_type}");
    }
    assert_eq!(status(&stack, "POST", "/calls", &[json, ("idempotency-key", "k")], call), 201);
}

#[test]
fn webhook_may_come_by_any_name() {
    let (_scratch, stack) = with_a_call();
    let tunnel = [("host", "abc.tunnel.example"), ("content-type", "application/x-www-form-urlencoded")];
    for path in ["/webhooks/retell", "/webhooks/retell/inbound"] {
        assert_eq!(status(&stack, "POST", path, &tunnel, "a=b"), 401, "{path}: the signature decides");
    }
    for path in ["/webhooks/../calls", "/webhooks/retell/../../calls", "/webhooks/%2e%2e/calls", "/webhooks/..%2Fcalls"]
    {
        assert_eq!(status(&stack, "POST", path, &tunnel, "a=b"), 404, "{path}");
    }
}

#[test]
fn address_of_something_else_is_told_apart() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let (mut socket, _) = server.accept().expect("a connection");
        drop(std::io::Read::read(&mut socket, &mut [0; 1024]));
        drop(std::io::Write::write_all(&mut socket, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"));
    });
    let error = connect(&url).expect_err("no stack");
    assert!(matches!(&error, Error::NotDev(_)), "{error}");
    assert!(connect("127.0.0.1:8787").is_err_and(|error| error.to_string().contains("not a URL")));
}
