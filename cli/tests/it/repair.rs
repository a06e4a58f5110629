//! `switchhook verify`, `dlq` and `quarantine`, with a `switchhook dev` in which something went wrong.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use switchhook_operate::plan::PlanId;
use switchhook_operate::run::{self, RunId};

use crate::operator::{block_on, connect};
use crate::stack::{KEY, PROGRAM, Scratch, Stack, aws, run, wait_for};

const RUN: [&str; 3] = ["--yes", "--reason", "a test"];

/// Posts a signed body of the generic provider.
fn post(scratch: &Scratch, stack: &Stack, body: &str) -> Value {
    let file = scratch.0.join("body");
    std::fs::write(&file, body).expect("the file is written");
    let file = file.to_str().expect("UTF-8");
    let (_, out, errors) = run(stack, &["send", "--provider", "generic", "--key", KEY, "--file", file]);
    let answer = out.split_once('{').map(|(_, rest)| format!("{{{rest}")).unwrap_or_default();
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{out}{errors}"))
}

fn ringing(call: &str, event: &str) -> Value {
    let sid = format!("sid-{call}");
    json!({
        "event_id": event, "type": "RINGING", "call_id": call, "occurred_at": "2026-01-01T00:00:00Z",
        "call": {"sid": sid},
    })
}

/// Waits until a call exists, and returns it.
fn wait_for_call(stack: &Stack, call: &str) -> Value {
    wait_for(&format!("the call {call}"), || {
        let (code, out, errors) = run(stack, &["show", call, "--json"]);
        if code == Some(0) { Ok(serde_json::from_str(&out).expect("JSON")) } else { Err(errors) }
    })
}

/// A local time was typed as UTC. Otherwise a check of no call would pass, and `recover stop` would end every open call.
#[test]
fn time_that_is_later_than_now_is_refused_and_a_check_of_no_call_does_not_pass() {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    let (code, out, errors) = run(&stack, &["verify", "--since", "1h"]);
    assert_eq!((code, out.as_str()), (Some(1), "verified no call: none has changed in this time\n"), "{errors}");
    post(&scratch, &stack, &ringing("c1", "e1").to_string());
    wait_for_call(&stack, "c1");
    let later = "2999-01-01T00:00:00Z";
    for command in [
        &["verify"][..],
        &["verify", "--json"],
        &["republish"],
        &["republish", "--failed"],
        &["replay"],
        &["recover", "inbox"],
        &["recover", "stop"],
        &["forget", "--call", "c1"],
    ] {
        let (code, out, errors) = run(&stack, &[command, &["--since", later]].concat());
        assert_eq!((code, out.as_str()), (Some(3), ""), "{command:?}: {errors}");
        assert!(errors.contains("2999-01-01T00:00:00.000Z is later than now"), "{command:?}: {errors}");
    }
    // Two times that were mixed up.
    for command in ["replay", "event list"] {
        let command = [&command.split(' ').collect::<Vec<_>>()[..], &["--since", "1h", "--until", "2h"]].concat();
        let (code, out, errors) = run(&stack, &command);
        assert_eq!((code, out.as_str()), (Some(3), ""), "{command:?}: {errors}");
        assert!(errors.starts_with("switchhook: refused: no time lies between "), "{command:?}: {errors}");
    }
}

#[test]
fn altered_row_is_named_and_repaired() {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    post(&scratch, &stack, &ringing("c1", "e1").to_string());
    wait_for_call(&stack, "c1");
    let (code, out, errors) = run(&stack, &["verify", "c1"]);
    assert_eq!((code, out.as_str()), (Some(0), "verified 1 call: all match their events\n"), "{errors}");
    let update = json!({
        "TableName": "switchhook-calls", "Key": {"call_id": {"S": "c1"}}, "UpdateExpression": "SET #job = :job",
        "ExpressionAttributeNames": {"#job": "job"}, "ExpressionAttributeValues": {":job": {"S": "FAILED"}},
    });
    aws(&stack.url, "DynamoDB_20120810.UpdateItem", &update);
    let (code, out, _) = run(&stack, &["verify", "--since", "1h"]);
    let expected = "c1: the row does not match its events\n  the row says that the job is FAILED, and its events make it \
                    IN_PROGRESS\nverified 1 call: none matches its events, 1 differs from its events; add --repair to plan \
                    the repair\n";
    assert_eq!((code, out.as_str()), (Some(1), expected));
    let (code, out, _) = run(&stack, &["verify", "--since", "1h", "--repair"]);
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("switchhook verify --plan p-"), "{out}");
    let (code, out, errors) = run(&stack, &[&["verify", "--since", "1h", "--repair"][..], &RUN].concat());
    assert_eq!(code, Some(0), "{out}{errors}");
    wait_for("the repaired row", || {
        let (code, out, errors) = run(&stack, &["verify", "c1"]);
        if code == Some(0) { Ok(()) } else { Err(format!("{out}{errors}")) }
    });
}

#[test]
fn dead_letter_is_listed_and_redriven() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    assert_eq!(run(&stack, &["dlq", "list"]).0, Some(1), "there is none");
    let event = json!({
        "event_id": "generic:e1", "origin": "generic", "event_type": "RINGING", "call_id": "c1", "attempt": "generic:c1",
        "from": "+15550100", "received_at": 1_767_225_600_000_i64, "call_events": [{"kind": "ringing"}],
    });
    let message = json!({"schema_version": 1, "trace_id": "trace", "event": event});
    let url = "http://sqs.us-east-1.amazonaws.com/000000000000/switchhook-events-dlq.fifo";
    let send = |body: &str, group: &str| {
        let request = json!({
            "QueueUrl": url, "MessageBody": body, "MessageGroupId": group, "MessageDeduplicationId": group,
        });
        aws(&stack.url, "AmazonSQS.SendMessage", &request)
    };
    send(&message.to_string(), "c1");
    let stranger = send("{\"nonsense\": true}", "x")["MessageId"].as_str().expect("an id").to_owned();
    let (code, out, errors) = run(&stack, &["dlq", "list"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("generic:e1") && out.contains(&stranger) && !out.contains("+15550100"), "{out}");
    assert!(out.starts_with("  kind ") && out.contains("  where "), "{out}");
    assert!(out.contains("queue only") && out.ends_with("2 dead letters, 2 messages in the queue\n"), "{out}");

    let (code, out, errors) = run(&stack, &["dlq", "redrive"]);
    assert_eq!((code, out.as_str()), (Some(3), ""), "{errors}");
    let (code, out, errors) = run(&stack, &[&["dlq", "redrive", "--all"][..], &RUN].concat());
    assert_eq!(code, Some(0), "{out}{errors}");
    assert!(out.contains("finished: 1 done"), "{out}");
    assert_eq!(wait_for_call(&stack, "c1")["call"]["lifecycle"], "ringing");
    let (_, out, _) = run(&stack, &["dlq", "list"]);
    assert!(!out.contains("generic:e1") && out.contains(&stranger), "{out}");
    let (code, out, errors) = run(&stack, &[&["dlq", "discard", &stranger][..], &RUN].concat());
    assert_eq!(code, Some(0), "{out}{errors}");
    assert_eq!(run(&stack, &["dlq", "list"]).0, Some(1));
}

#[test]
fn id_that_does_not_exist_is_named_with_what_to_do() {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    post(&scratch, &stack, &ringing("c1", "e1").to_string());
    wait_for_call(&stack, "c1");
    let unreadable = post(&scratch, &stack, "{\"type\": ");
    let unreadable = unreadable["event_id"].as_str().expect("an id");
    let wrong = |arguments: &[&str], id: &str, parts: &[&str]| {
        for more in [&[][..], &RUN] {
            let (code, out, errors) = run(&stack, &[arguments, more].concat());
            assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?} {more:?}: {errors}");
            assert!(errors.starts_with(&format!("switchhook: {id}: ")), "{errors}");
            assert!(parts.iter().all(|part| errors.contains(part)), "{parts:?} are not in {errors}");
        }
    };
    wrong(&["replay", "--call", "nobody"], "nobody", &["has no call", "`switchhook timeline`", "add --since TIME"]);
    wrong(
        &["replay", "--call", "nobody", "--since", "1h"],
        "nobody",
        &["the inbox holds no such event", "earlier --since"],
    );
    wrong(&["dlq", "redrive", "nobody"], "nobody", &["no dead letter has this id", "`switchhook dlq list`"]);
    wrong(&["dlq", "discard", "generic:e1"], "generic:e1", &["no dead letter has this id", "`switchhook event show`"]);
    wrong(&["dlq", "discard", unreadable], unreadable, &["`switchhook quarantine`"]);
    wrong(&["quarantine", "discard", "nobody"], "nobody", &["holds no event", "`switchhook quarantine list`"]);
    wrong(&["quarantine", "discard", "generic:e1"], "generic:e1", &["is not quarantined: its status is applied"]);
    wrong(&["quarantine", "reprocess", "nobody"], "nobody", &["holds no event"]);
    wrong(&["quarantine", "discard", unreadable, "--cause", "sunspots"], unreadable, &["its cause is another"]);

    let partly = ["quarantine", "discard", "one", unreadable, "two"];
    let (code, out, errors) = run(&stack, &partly);
    assert_eq!(code, Some(1), "{out}{errors}");
    assert!(errors.contains("switchhook: one: ") && errors.contains("switchhook: two: "), "{errors}");
    assert!(out.contains("quarantine discard 1 item") && !out.contains("Nothing was selected"), "{out}");
    let (_, out, _) = run(&stack, &[&partly[..], &["--json"]].concat());
    let plan: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((&plan["not_found"][0]["id"], &plan["not_found"][1]["id"]), (&"one".into(), &"two".into()), "{plan}");
    let (code, out, _) = run(&stack, &[&partly[..], &RUN].concat());
    assert_eq!(code, Some(1), "an id was not found");
    assert!(out.contains("finished: 1 done"), "{out}");
}

#[test]
fn unreadable_webhook_is_listed_shown_and_discarded() {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    assert_eq!(run(&stack, &["quarantine", "list"]).0, Some(1), "there is none");
    let answer = post(&scratch, &stack, "{\"from\": \"+15550100\", \"type\": ");
    let id = answer["event_id"].as_str().expect("an id");
    assert_eq!(answer["status"], "quarantined");
    let (code, out, _) = run(&stack, &["quarantine", "list"]);
    assert_eq!(code, Some(0));
    assert!(out.contains(id) && out.contains("ingress"), "{out}");
    let (code, out, errors) = run(&stack, &["event", "show", id]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("\n    the body is not JSON\n") && !out.contains("+15550100"), "{out}");
    let (_, out, _) = run(&stack, &["event", "show", id, "--body", "--reason", "ticket 812"]);
    assert!(out.contains("+15550100"), "{out}");
    let (code, out, _) = run(&stack, &["quarantine", "reprocess", "--all"]);
    assert_eq!(code, Some(1), "nothing can be read");
    assert!(out.contains(id) && out.contains("the body is not JSON"), "{out}");
    let (_, out, _) = run(&stack, &["quarantine", "discard", id, "--json"]);
    let plan: Value = serde_json::from_str(&out).expect("one JSON object");
    let plan = plan["id"].as_str().expect("an id");
    let named = ["quarantine", "discard", "--plan", plan];
    let (code, out, errors) = run(&stack, &named);
    assert!(code == Some(0) && out.contains("Nothing has changed"), "{out}{errors}");
    let (code, out, errors) = run(&stack, &["dlq", "discard", "--plan", plan]);
    assert!(code == Some(3) && !out.contains("To carry it out"), "{out}{errors}");
    assert!(errors.contains("was made by `quarantine discard`, not by `dlq discard`"), "{errors}");
    let (code, out, errors) = run(&stack, &[&named[..], &RUN].concat());
    assert_eq!(code, Some(0), "{out}{errors}");
    let (code, out, errors) = run(&stack, &named);
    assert!(code == Some(3) && !out.contains("To carry it out"), "{out}{errors}");
    let run_id = RunId::of_plan(&PlanId::new(plan));
    assert!(errors.contains(&format!("refused: the plan was run already, as {run_id}: 1 done")), "{errors}");
    assert_eq!((run(&stack, &["quarantine", "list"]).0, run(&stack, &["dlq", "list"]).0), (Some(1), Some(1)));
}

#[test]
fn run_that_is_killed_goes_on() {
    let (scratch, stack) = Stack::with_known_keys(&[]);
    for number in 0..6 {
        post(&scratch, &stack, &ringing(&format!("c{number}"), &format!("e{number}")).to_string());
    }
    for number in 0..6 {
        wait_for_call(&stack, &format!("c{number}"));
    }
    let (_, out, errors) = run(&stack, &["republish", "--since", "1h", "--json"]);
    let plan: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{errors}"));
    let plan = plan["id"].as_str().expect("an id").to_owned();
    let mut killed = Command::new(PROGRAM)
        .args(["republish", "--plan", &plan, "--rate", "1", "--to", &stack.url])
        .args(RUN)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let operated = connect(&stack.url).expect("a stack");
    let run_id = RunId::of_plan(&PlanId::new(&plan));
    wait_for("the first items of the run", || {
        match block_on(run::get(&operated, &run_id)).expect("the table answers") {
            Some(run) if run.position >= 2 => Ok(()),
            run => Err(format!("{run:?}")),
        }
    });
    killed.kill().expect("it is running");
    killed.wait().expect("it ends");
    let (code, out, errors) = run(&stack, &["run", "resume", run_id.as_str()]);
    assert_eq!(code, Some(0), "{out}{errors}");
    assert!(out.contains("finished: 6 done, 0 unchanged, 0 skipped."), "{out}");
    let ringing = wait_for("every event twice", || {
        let ringing = stack.domain_events(None).into_iter().filter(|event| event.1 == "call.ringing").count();
        if ringing >= 12 { Ok(ringing) } else { Err(format!("{ringing} events")) }
    });
    assert!((12..=13).contains(&ringing), "each once more, and at most the one of the kill twice: {ringing}");
}
