//! Phones that could ring because of a repair: `--yes` is not enough.

use serde_json::json;

use crate::call::{create, id, in_a_day, wait_for_job};
use crate::stack::{Stack, aws, run};

#[test]
fn repair_that_could_ring_needs_a_second_confirmation() {
    let (_scratch, stack) = Stack::with_known_keys(&[]);
    let call = &id(&create(&stack, &["--due", &in_a_day()]));
    // A row with another job than its events give. The repair makes the call due again.
    let update = json!({
        "TableName": "switchhook-calls", "Key": {"call_id": {"S": call}}, "UpdateExpression": "SET #job = :job REMOVE due_at",
        "ExpressionAttributeNames": {"#job": "job"}, "ExpressionAttributeValues": {":job": {"S": "FAILED"}},
    });
    aws(&stack.url, "DynamoDB_20120810.UpdateItem", &update);

    let repair = ["verify", call, "--repair"];
    let (code, out, errors) = run(&stack, &repair);
    assert_eq!(code, Some(0), "{out}{errors}");
    assert!(out.contains("could ring") && out.contains("Phones that could ring: 1."), "{out}");
    assert!(out.contains(" --allow-ringing --yes --reason TEXT"), "the printed command confirms both: {out}");
    let confirmed = ["--yes", "--reason", "a test"];
    let (code, out, errors) = run(&stack, &[&repair[..], &confirmed].concat());
    assert_eq!(code, Some(3), "{out}{errors}");
    assert!(errors.contains("phones that could ring: 1. If that is wanted, add --allow-ringing"), "{errors}");
    let shown = stack.get(&format!("/call?id={call}")).expect("the call is known");
    assert_eq!(shown["job"]["state"], "FAILED", "nothing has changed");

    let (code, out, errors) = run(&stack, &[&repair[..], &confirmed, &["--allow-ringing"]].concat());
    assert_eq!(code, Some(0), "{out}{errors}");
    wait_for_job(&stack, call, "PENDING");
}
