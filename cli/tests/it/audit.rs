//! Commands that change a stack without a plan leave audit records, and change nothing without them.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};
use switchhook_operate::audit::Direct;

use crate::fake_aws::FakeAws;
use crate::stack::{CREATE_CALL, PERSON, Stack, replaces_answers, text};

fn records(stack: &Stack) -> Vec<Value> {
    let output = stack.switchhook(&["audit", "list", "--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    all["records"].as_array().expect("records").clone()
}

/// Runs a command that must succeed. Returns its standard output.
fn done(stack: &Stack, arguments: &[&str]) -> String {
    let output = stack.switchhook(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn every_change_without_a_plan_leaves_two_records() {
    let (scratch, stack) = Stack::quiet();
    let rows = scratch.0.join("november.csv");
    std::fs::write(&rows, "provider,from,to\nretell,+442079460018,+447700900124\n").expect("a file");
    let generic = scratch.0.join("generic.json");
    std::fs::write(&generic, r#"{"generic": {"keys": ["hunter2 and more, so that it is long enough"]}}"#)
        .expect("a file");
    let due = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let created = done(&stack, &[&CREATE_CALL[..], &["--due", &due]].concat());
    let call_id = created.split(' ').next().expect("an id");
    done(&stack, &["call", "trigger", call_id, "--reason", "ticket 1"]);
    let unknown = stack.switchhook(&["call", "cancel", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1), "there is no such call");
    done(&stack, &["call", "import", rows.to_str().expect("UTF-8"), "--reason", "ticket 2"]);
    done(&stack, &["reconcile"]);
    done(&stack, &["reconcile", "--drift", "--reason", "ticket 3"]);
    done(&stack, &["providers", "put", generic.to_str().expect("UTF-8"), "--yes", "--reason", "ticket 4"]);

    let records = records(&stack);
    let changes: BTreeSet<&str> = records.iter().filter_map(|record| record["verb"].as_str()).collect();
    let all = Direct::ALL.iter().filter(|direct| **direct != Direct::ShowBody);
    assert_eq!(changes, all.map(|direct| direct.as_str()).collect::<BTreeSet<_>>());
    assert_eq!(records.len(), 2 * changes.len());
    let of = |verb: &str, moment: &str| {
        let is_it = |record: &&Value| record["verb"] == verb && record["moment"] == moment;
        records.iter().find(is_it).unwrap_or_else(|| panic!("no record {verb} {moment}"))
    };
    for (verb, reason, done) in [
        ("create_call", Direct::CreateCall.purpose(), 1),
        ("trigger_call", "ticket 1", 1),
        ("cancel_call", Direct::CancelCall.purpose(), 0),
        ("import_calls", "ticket 2", 1),
        ("reconcile", Direct::Reconcile.purpose(), 1),
        ("drift_check", "ticket 3", 1),
        ("put_providers", "ticket 4", 1),
    ] {
        let (started, finished) = (of(verb, "started"), of(verb, "finished"));
        assert_eq!(started["reason"], reason);
        assert_eq!((&finished["reason"], &finished["who"]), (&started["reason"], &started["who"]));
        assert_eq!((&started["counts"]["done"], &finished["counts"]["done"]), (&Value::from(0), &Value::from(done)));
    }
    assert_eq!(of("create_call", "finished")["call_id"], call_id);
    assert_eq!(of("cancel_call", "started")["call_id"], "nobody");
    assert_eq!(of("cancel_call", "finished")["counts"]["skipped"], 1);
    assert_eq!(of("import_calls", "started")["about"], "november.csv");
    assert_eq!(of("put_providers", "started")["about"], "generic");

    let everything = format!("{records:?}{}", done(&stack, &["audit", "list"]));
    for hidden in ["44770090", "44207946", "hunter2"] {
        assert!(!everything.contains(hidden), "{hidden} is in {everything}");
    }
    let published = stack.domain_events(None);
    let published = published.iter().filter(|(_, event_type, _)| event_type == "operator.action");
    assert_eq!(published.count(), records.len());
}

/// The shell ends the reader of the output as soon as it has read enough.
#[test]
fn call_whose_output_nobody_reads_has_a_record_with_its_id() {
    let (_scratch, stack) = Stack::quiet();
    let due = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let unread = |arguments: &[&str]| {
        let mut command = stack.command(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("it ends").code(), Some(141), "{arguments:?}");
    };
    let finished = |verb: &str| {
        let is_it = |record: &Value| record["verb"] == verb && record["moment"] == "finished";
        records(&stack).into_iter().find(is_it).unwrap_or_else(|| panic!("no record of {verb} is finished"))
    };
    unread(&[&CREATE_CALL[..], &["--due", &due]].concat());
    let created = finished("create_call");
    let call_id = created["call_id"].as_str().expect("an id");
    assert!(stack.get(&format!("/call?id={call_id}")).is_some(), "{created}");
    assert_eq!(created["counts"]["done"], 1);
    unread(&["call", "cancel", call_id]);
    assert_eq!(finished("cancel_call")["counts"]["done"], 1);
}

/// A record without a result would tell of an interruption.
#[test]
fn run_that_fails_or_is_refused_has_a_result_and_one_without_an_answer_has_none() {
    let stack = Stack::start(&["--tick", "1h"]);
    let failed = json!({"errorType": "Runtime.ExitError", "errorMessage": "exit status 1"}).to_string();
    let refused = json!({"message": "not authorized to perform lambda:InvokeFunction"}).to_string();
    let mut started = 0;
    for (status, answer, finished) in [(200, failed, 1), (403, refused, 2), (500, "{}".to_owned(), 2)] {
        let output = FakeAws::start(&stack, &[("Invoke", status, answer)]).run(&["reconcile"], &[]);
        assert_eq!(output.status.code(), Some(2), "{status}");
        assert!(text(&output.stderr).contains("reconciler") || status != 200, "{}", text(&output.stderr));
        started += 1;
        let records = records(&stack);
        let of = |moment: &str| records.iter().filter(|record| record["moment"] == moment).collect::<Vec<_>>();
        assert_eq!((of("started").len(), of("finished").len()), (started, finished), "{status}: {records:?}");
        for record in of("finished") {
            assert_eq!(record["counts"], json!({"done": 0, "unchanged": 0, "skipped": 1}));
        }
    }
}

/// The stack cancels the call, and its answer is a server error.
#[test]
fn change_that_may_have_been_made_has_no_second_record() {
    let (_scratch, stack) = Stack::quiet();
    let due = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let created = done(&stack, &[&CREATE_CALL[..], &["--due", &due]].concat());
    let call_id = created.split(' ').next().expect("an id");
    let proxy = replaces_answers(&stack.url, "POST /call/cancel", 0, 500);
    let output = stack.switchhook(&["call", "cancel", call_id, "--to", &proxy]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let call = stack.get(&format!("/call?id={call_id}")).expect("the call");
    assert_eq!(call["job"]["state"], "CANCELED");
    let records = records(&stack);
    let canceled = records.iter().filter(|record| record["verb"] == "cancel_call");
    let moments: Vec<&str> = canceled.filter_map(|record| record["moment"].as_str()).collect();
    assert_eq!(moments, ["started"]);
}

#[test]
fn reason_of_several_lines_and_numbers_stay_out_of_the_records() {
    let (scratch, stack) = Stack::quiet();
    let refused = stack.switchhook(&["reconcile", "--reason", PERSON]);
    let (code, errors) = (refused.status.code(), text(&refused.stderr));
    assert!(
        code == Some(3) && errors.starts_with("switchhook: refused: the reason may hold a phone number"),
        "{errors}"
    );
    let created = stack.switchhook(&[&CREATE_CALL[..], &["--reason", PERSON]].concat());
    assert_eq!(created.status.code(), Some(3), "{}", text(&created.stderr));
    let file = scratch.0.join("one.csv");
    std::fs::write(&file, "provider,from,to\nretell,+442079460018,+447700900124\n").expect("a file");
    let imported = ["call", "import", file.to_str().expect("UTF-8"), "--reason", PERSON];
    assert_eq!(stack.switchhook(&imported).status.code(), Some(3));
    // The second line would look like a record in the list.
    let forged = stack.switchhook(&["reconcile", "--reason", "routine\n2026-11-30  r-1  finished  forget  alice: x"]);
    assert_eq!(forged.status.code(), Some(3), "{}", text(&forged.stderr));
    assert!(text(&forged.stderr).contains("the reason has a line break"), "{}", text(&forged.stderr));
    assert!(records(&stack).is_empty(), "nothing was done");
    let unknown = stack.switchhook(&["call", "cancel", PERSON]);
    assert_eq!(unknown.status.code(), Some(1));
    let records = records(&stack);
    assert_eq!((records.len(), &records[0]["call_id"]), (2, &Value::from("***")));
}
