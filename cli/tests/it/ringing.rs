//! Phones that could ring because of a repair: `--yes` is not enough.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stack::{Stack, agent, run};

/// Sends a request with a JSON body. Returns the answer.
fn post(url: &str, content_type: &str, target: &str, body: &Value) -> Value {
    let request = agent().post(url).content_type(content_type).header("x-amz-target", target);
    let mut answer = request.send(body.to_string()).expect("an answer");
    let text = answer.body_mut().read_to_string().expect("a body");
    assert!(answer.status().is_success(), "{url}: {text}");
    serde_json::from_str(&text).unwrap_or_default()
}

#[test]
fn repair_that_could_ring_needs_a_second_confirmation() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    let due_at = (jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24)).to_string();
    let request = json!({"provider": "retell", "from": "+15550100", "to": "+15550199", "due_at": due_at});
    let created = post(&format!("{}/calls", stack.url), "application/json", "", &request);
    let call = created["call_id"].as_str().unwrap_or_else(|| panic!("{created}"));
    // A row with another job than its events give. The repair makes the call due again.
    let update = json!({
        "TableName": "switchhook-calls", "Key": {"call_id": {"S": call}}, "UpdateExpression": "SET #job = :job REMOVE due_at",
        "ExpressionAttributeNames": {"#job": "job"}, "ExpressionAttributeValues": {":job": {"S": "FAILED"}},
    });
    post(&format!("{}/aws", stack.url), "application/x-amz-json-1.0", "DynamoDB_20120810.UpdateItem", &update);

    let repair = ["verify", call, "--repair"];
    let (code, out, errors) = run(&stack, &repair);
    assert_eq!(code, Some(0), "{out}{errors}");
    assert!(out.contains("could ring") && out.contains("Phones that could ring: 1."), "{out}");
    assert!(out.contains(" --allow-ringing --yes --reason TEXT"), "the printed command confirms both: {out}");
    let confirmed = ["--yes", "--reason", "a test"];
    let (code, out, errors) = run(&stack, &[&repair[..], &confirmed].concat());
    assert_eq!(code, Some(3), "{out}{errors}");
    assert!(errors.contains("phones that could ring: 1. If that is wanted, add --allow-ringing"), "{errors}");
    let job = || {
        let (_, out, errors) = run(&stack, &["show", call, "--json"]);
        let shown: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{errors}"));
        shown["call"]["job"]["state"].as_str().unwrap_or_else(|| panic!("{out}")).to_owned()
    };
    assert_eq!(job(), "FAILED", "nothing has changed");

    let (code, out, errors) = run(&stack, &[&repair[..], &confirmed, &["--allow-ringing"]].concat());
    assert_eq!(code, Some(0), "{out}{errors}");
    let until = Instant::now() + Duration::from_secs(60);
    while job() != "PENDING" {
        assert!(Instant::now() < until, "the call is not due again");
        std::thread::sleep(Duration::from_millis(100));
    }
}
