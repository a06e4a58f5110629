//! `switchhook dev`, and `switchhook send` and `switchhook show` with it.

use std::io::Read;

use serde_json::Value;

use crate::stack::{KEY, PROGRAM, Scratch, Stack, agent, pasted, switchhook, text, wait_for};

/// Waits until the call has this lifecycle, and returns the call. A webhook gets its response before it is folded.
fn shown(stack: &Stack, call: &str, lifecycle: &str) -> Value {
    wait_for(&format!("{lifecycle} of {call}"), || match stack.get(&format!("/call?id={call}")) {
        Some(shown) if shown["lifecycle"] == lifecycle => Ok(shown),
        shown => Err(format!("{shown:?}")),
    })
}

#[test]
fn ctrl_c_and_sigterm_stop_it_cleanly() {
    for signal in ["-INT", "-TERM"] {
        let stack = Stack::start(&[]);
        // A subscriber that never disconnects must not keep the process from stopping.
        let mut subscriber = std::net::TcpStream::connect(stack.url.trim_start_matches("http://")).expect("it listens");
        std::io::Write::write_all(&mut subscriber, b"GET /domain-events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .expect("it reads");
        subscriber.read_exact(&mut [0; 12]).expect("an answer");

        let (status, out, errors) = stack.stop(signal);
        assert_eq!(status.code(), Some(0), "{errors}");
        assert_eq!(out, "", "standard output contains only the ready line");
    }
}

/// Otherwise only a restart would open the pages again, and a stack without `--data` loses its calls by that.
#[test]
fn enter_prints_a_new_link_to_the_pages() {
    fn status(link: &str) -> u16 {
        let (host, path) = link.strip_prefix("http://").and_then(|link| link.split_once('/')).expect("a link");
        let port = host.rsplit(':').next().expect("a port");
        let request = agent().get(format!("http://127.0.0.1:{port}/{path}")).header("host", host);
        request
            .header("sec-fetch-site", "none")
            .header("sec-fetch-mode", "navigate")
            .call()
            .expect("an answer")
            .status()
            .as_u16()
    }
    let mut stack = Stack::start(&[]);
    let first = stack.link.clone();
    assert_eq!([status(&first), status(&first)], [200, 403]);
    stack.press_enter();
    let line = stack.error_line("look at it: ");
    let (_, second) = line.trim_end().split_once("look at it: ").expect("a link");
    assert_eq!(status(second), 200);
}

/// So it is after `switchhook dev 2>&1 | head -1`.
#[test]
fn enter_does_not_end_it_if_nobody_reads_standard_error() {
    let mut stack = Stack::start(&[]);
    stack.close_errors();
    stack.press_enter();
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(stack.get("/call?id=none"), None, "it answers that there is no such call");
}

#[test]
fn without_providers_keys_are_made_and_printed_with_commands() {
    let stack = Stack::start(&[]);
    let url = stack.url.clone();
    let (_, _, errors) = stack.stop("-TERM");
    let commands: Vec<&str> = errors.lines().filter(|line| line.contains(" send --provider ")).collect();
    assert_eq!(commands.len(), 3, "{errors}");
    assert!(commands.iter().all(|command| command.ends_with(&format!(" --to {url}"))), "{errors}");
}

#[test]
fn printed_command_can_be_pasted() {
    let mut stack = Stack::start(&[]);
    let send = " send --provider ";
    for part in [send, send, send, " call create "] {
        let line = stack.error_line(part);
        assert!(line.contains(PROGRAM), "it does not name the program: {line}");
        let output = pasted(&line);
        assert_eq!(output.status.code(), Some(0), "{line}: {} {}", text(&output.stdout), text(&output.stderr));
    }
}

#[test]
fn webhook_becomes_a_call_and_a_stream_of_domain_events() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);

    let (code, answer, _) = stack.send_sample("retell/call_analyzed", "a key for Retell");
    assert_eq!(code, Some(0), "{answer}");
    assert!(answer.starts_with("200 {") && answer.contains("accepted"), "{answer}");
    assert_eq!(shown(&stack, "appointment:appt_201", "completed")["appointment_status"], "Confirmed");

    let events = wait_for("the domain events of the call", || {
        let events = stack.domain_events(None);
        if events.len() >= 7 { Ok(events) } else { Err(format!("{events:?}")) }
    });
    let types: Vec<&str> = events.iter().map(|(_, event_type, _)| event_type.as_str()).collect();
    assert_eq!(
        types,
        [
            "call.initiated",
            "call.ringing",
            "call.in_progress",
            "call.completed",
            "appointment.dialing",
            "appointment.connected",
            "appointment.confirmed",
        ]
    );
    assert!(events.iter().all(|(id, event_type, event)| event["id"] == **id && event["type"] == **event_type));
    let rest = stack.domain_events(Some("appointment:appt_201/5"));
    assert_eq!(rest, events[5..]);
}

#[test]
fn commands_use_the_time_of_a_stack_that_runs_ahead() {
    let scratch = Scratch::new();
    let (data, providers) = (scratch.0.join("data"), scratch.providers());
    std::fs::create_dir(&data).expect("a directory");
    // Three hours were skipped on the page Try.
    std::fs::write(data.join("clock.json"), r#"{"ahead_ms": 10800000}"#).expect("the file is written");
    let stack = Stack::with_data(&data, &providers, &[]);
    let (code, answer, _) = stack.send_sample("retell/call_ended", "a key for Retell");
    assert_eq!(code, Some(0), "the signature is too old: {answer}");
    let listed = switchhook(&["event", "list", "--json", "--to", &stack.url]);
    let page: Value = serde_json::from_slice(&listed.stdout).expect("one JSON object");
    assert_eq!(page["events"].as_array().map(Vec::len), Some(1), "{page}");
}

#[test]
fn show_prints_the_timeline_of_a_call() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    stack.send_sample("retell/call_ended", "a key for Retell");
    shown(&stack, "appointment:appt_201", "completed");

    let output = switchhook(&["show", "appointment:appt_201", "--to", &stack.url]);
    assert_eq!(output.status.code(), Some(0));
    let printed = text(&output.stdout);
    for part in ["retell, outbound", "completed, outcome connected", "in_progress", "applied", "(implied)"] {
        assert!(printed.contains(part), "{part} is not in\n{printed}");
    }

    let output = switchhook(&["show", "appointment:appt_201", "--to", &format!("{}/", stack.url), "--json"]);
    let both: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(both["call"]["lifecycle"], "completed");
    assert_eq!(both["events"].as_array().map(Vec::len), Some(3));

    let output = switchhook(&["show", "appointment:a/b", "--to", &stack.url]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(text(&output.stderr).contains("there is no call \"appointment:a/b\""));
}

#[test]
fn wrong_key_is_answered_401_and_exit_status_1() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    let (code, answer, _) = stack.send_sample("generic/user_confirmed", "another key");
    assert_eq!(code, Some(1));
    assert!(answer.starts_with("401 "), "{answer}");
    let (code, _, _) = stack.send_sample("generic/user_confirmed", KEY);
    assert_eq!(code, Some(0));
}

#[test]
fn url_with_a_path_is_posted_to_as_it_is() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    for to in [format!("{}/webhooks/generic", stack.url), format!("{}/webhooks/generic/?a=1", stack.url)] {
        let output =
            switchhook(&["send", "--provider", "generic", "--key", KEY, "--sample", "generic/busy", "--to", &to]);
        let answer = text(&output.stdout);
        assert!(answer.starts_with("200 "), "{to}: {answer}");
    }
}

#[test]
fn body_larger_than_the_gateway_takes_is_refused() {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    let code = |bytes: usize| {
        let answer = agent().post(format!("{}/webhooks/generic", stack.url)).send(&vec![b'x'; bytes]);
        answer.expect("an answer").status().as_u16()
    };
    assert_eq!(code(10 * 1024 * 1024 + 1), 413);
    assert_eq!(code(4 * 1024 * 1024 + 1), 413);
    assert_eq!(code(4 * 1024 * 1024), 401);
    // `send` refuses such a body before it sends anything.
    let file = scratch.0.join("body");
    std::fs::write(&file, vec![b'x'; 4 * 1024 * 1024 + 1]).expect("the file is written");
    let file = file.to_str().expect("UTF-8");
    let output = stack.switchhook(&["send", "--provider", "generic", "--key", KEY, "--file", file]);
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{errors}");
    assert!(errors.contains("at most 4194304 bytes"), "{errors}");
}

#[test]
fn keys_that_were_stored_survive_in_the_data_directory() {
    let scratch = Scratch::new();
    let (data, file) = (scratch.0.join("data"), scratch.providers());
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    let (data, file) = (path(&data), path(&file));
    let sent = |stack: &Stack| {
        let send = ["send", "--provider", "retell", "--key", "a key for Retell", "--sample", "retell/call_ended"];
        stack.switchhook(&send).status.code()
    };
    let mut stack = Stack::start(&["--data", &data]);
    let stored = stack.switchhook(&["providers", "put", &file, "--yes"]);
    assert_eq!(stored.status.code(), Some(0), "{}", text(&stored.stderr));
    stack.kill();
    let mut stack = Stack::start(&["--data", &data]);
    assert!(stack.error_line("providers put").contains(&data));
    assert_eq!(sent(&stack), Some(0));
    stack.kill();

    // A file that the user names counts more, and is kept in turn.
    let other = scratch.0.join("other.json");
    std::fs::write(&other, r#"{"retell":{"keys":["another key for Retell"]}}"#).expect("the file is written");
    let mut stack = Stack::start(&["--data", &data, "--providers", &path(&other)]);
    assert_eq!(sent(&stack), Some(1));
    stack.kill();
    let mut stack = Stack::start(&["--data", &data]);
    assert_eq!(sent(&stack), Some(1));
    stack.kill();

    let mut stack = Stack::start(&["--data", &data, "--providers", &file]);
    let stored = stack.switchhook(&["providers", "put", &file, "--yes"]);
    assert!(text(&stored.stdout).contains("the secrets hold this already"), "{}", text(&stored.stdout));
    stack.kill();
    assert_eq!(sent(&Stack::start(&["--data", &data])), Some(0));
}

#[test]
fn configured_provider_that_reports_an_outcome_does_so_after_a_restart() {
    let scratch = Scratch::new();
    let data = scratch.0.join("data");
    let data = data.to_str().expect("UTF-8");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/providers/elevenlabs.json");
    let providers =
        |stack: &Stack| stack.get("/stack").expect("the names")["settings"]["outcome_providers"].to_string();
    let mut stack = Stack::start(&["--data", data]);
    assert!(!providers(&stack).contains("x-elevenlabs"));
    let stored = stack.switchhook(&["providers", "put", example, "--yes"]);
    assert_eq!(stored.status.code(), Some(0), "{}", text(&stored.stderr));
    stack.kill();
    let stack = Stack::start(&["--data", data]);
    assert!(providers(&stack).contains("x-elevenlabs"), "{}", providers(&stack));
}

#[test]
fn subscriber_misses_nothing_after_a_republish() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    stack.send_sample("retell/call_analyzed", "a key for Retell");
    shown(&stack, "appointment:appt_201", "completed");
    let all_of_the_call = || {
        let events = stack.domain_events(None);
        if events.len() >= 7 { Ok(events) } else { Err(format!("{events:?}")) }
    };
    let last_seen = wait_for("the domain events of the call", all_of_the_call)[1].0.clone();
    let (code, answer, _) = stack.send_sample("generic/busy", KEY);
    assert_eq!(code, Some(0), "{answer}");
    let before = wait_for("the domain events of another call", || {
        let events = stack.domain_events(None);
        if events.len() > 7 { Ok(events) } else { Err(format!("{events:?}")) }
    });
    let republish = ["republish", "--call", "appointment:appt_201", "--yes", "--reason", "a test"];
    let output = stack.switchhook(&republish);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rest = stack.domain_events(Some(&last_seen));
    assert!(before[2..].iter().all(|event| rest.contains(event)), "{rest:?}");
}

#[test]
fn what_keeps_it_from_starting_is_said_in_one_line() {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    let port = stack.url.rsplit(':').next().expect("a port");
    let bad = scratch.0.join("bad.json");
    std::fs::write(&bad, r#"{"retell":{"keys":[]},"vapi":{}}"#).expect("the file is written");
    let file = scratch.providers();
    let path = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    for (arguments, parts) in [
        (vec!["--port".to_owned(), port.to_owned()], vec!["could not listen", port, "--port"]),
        (vec!["--port".into(), "0".into(), "--providers".into(), "none.json".into()], vec!["none.json", "--providers"]),
        (vec!["--port".into(), "0".into(), "--providers".into(), path(&bad)], vec!["bad.json", "retell.keys", "vapi"]),
        (vec!["--port".into(), "0".into(), "--data".into(), path(&file)], vec!["providers.json", "--data"]),
    ] {
        let arguments: Vec<&str> = std::iter::once("dev").chain(arguments.iter().map(String::as_str)).collect();
        let output = switchhook(&arguments);
        let errors = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{errors}");
        let message = errors.lines().last().expect("an error message");
        for part in parts {
            assert!(message.contains(part), "{part} is not in: {message}");
        }
    }
}
