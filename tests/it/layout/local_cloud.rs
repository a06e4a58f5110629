//! The local cloud has the queues, tables, batches and limits of the template.

use serde_json::{Value, json};
use switchhook_local::{
    DEFAULT_RETRY_POLICY, DIAL_QUEUE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, RELAY_FAILURES_QUEUE, stack_queues,
};

use super::{TEMPLATE, scalar};
use crate::files::{files_with_extension, read, yaml};

/// The properties of a resource of the template.
fn properties(resource: &str) -> Value {
    let resource = &yaml(TEMPLATE)["Resources"][resource];
    assert!(resource.is_object(), "the template has no such resource");
    resource["Properties"].clone()
}

/// The default of a parameter of the template.
fn default_of(parameter: &str) -> String {
    scalar(&yaml(TEMPLATE)["Parameters"][parameter]["Default"])
}

/// The sources below a folder, one after the other.
fn sources(folder: &str) -> String {
    let files = files_with_extension("rs").into_iter().filter(|path| path.starts_with(folder));
    files.map(|path| read(&path)).collect()
}

/// The value of a private constant that is defined somewhere below a folder. A duration counts in seconds.
fn constant(folder: &str, name: &str) -> f64 {
    let sources = sources(folder);
    let mut definitions = sources.lines().filter(|line| line.contains(&format!("const {name}: ")));
    let definition = definitions.next().unwrap_or_else(|| panic!("there is no {name} in {folder}"));
    assert_eq!(definitions.next(), None, "two definitions of {name}");
    let value = definition.split_once(" = ").unwrap().1.trim_end_matches(';').replace('_', "");
    let value = value.trim_start_matches("Duration::fromsecs(").trim_end_matches(')');
    value.split(" * ").map(|factor| factor.parse::<f64>().unwrap()).product()
}

#[test]
fn local_queues_are_those_of_the_template() {
    let max_receive_count = default_of("MaxReceiveCount");
    for queue in stack_queues() {
        let resource = match queue.name.as_str() {
            EVENTS_QUEUE => "EventsQueue",
            EVENTS_DEAD_LETTER_QUEUE => "EventsDlq",
            RELAY_FAILURES_QUEUE => "RelayFailuresQueue",
            DIAL_QUEUE => "DialQueue",
            other => panic!("the template has no {other}"),
        };
        let properties = properties(resource);
        assert_eq!(queue.fifo, properties["FifoQueue"] == true, "{}", queue.name);
        // If the template has no value, the default of SQS applies.
        let timeout_s = properties["VisibilityTimeout"].as_u64().unwrap_or(30);
        assert_eq!(queue.visibility_timeout_ms / 1_000, timeout_s, "{}", queue.name);
        match queue.redrive_policy {
            Some(redrive) => {
                assert_eq!(properties["RedrivePolicy"]["maxReceiveCount"], json!({"!Ref": "MaxReceiveCount"}));
                assert_eq!(redrive.max_receive_count.to_string(), max_receive_count);
                assert_eq!(redrive.dead_letter_queue, EVENTS_DEAD_LETTER_QUEUE);
            }
            None => assert!(properties["RedrivePolicy"].is_null(), "{}", queue.name),
        }
    }
    assert_eq!(max_receive_count, switchhook_tests::MAX_RECEIVE_COUNT.to_string());
}

#[test]
fn local_batches_and_retentions_are_those_of_the_template() {
    let check = |name: &str, expected: &Value| {
        assert_eq!(constant("local/src/", name), scalar(expected).parse::<f64>().unwrap(), "{name}");
    };
    check("QUEUE_BATCH", &properties("ConsumerMapping")["BatchSize"]);
    check("STREAM_BATCH", &properties("RelayMapping")["BatchSize"]);
    check("DIAL_BATCH", &properties("DialerMapping")["BatchSize"]);
    check("CONCURRENT_DIALS_PER_PROVIDER", &json!(default_of("ConcurrentDialsPerProvider")));
    check("RECORD_AGE_MAX", &properties("RelayMapping")["MaximumRecordAgeInSeconds"]);
    for (name, parameter) in [("INBOX_RETENTION", "InboxRetentionDays"), ("CALL_RETENTION", "CallRetentionDays")] {
        let days: u64 = default_of(parameter).parse().unwrap();
        check(name, &json!(days * 24 * 60 * 60));
    }
}

#[test]
fn local_calls_are_tried_again_as_the_template_says() {
    let default = |parameter: &str| default_of(parameter).parse::<u32>().unwrap();
    assert_eq!(u32::from(DEFAULT_RETRY_POLICY.attempts_max), default("RetryAttemptsMax"));
    assert_eq!(DEFAULT_RETRY_POLICY.delay_seconds, default("RetryDelaySeconds"));
    assert_eq!(DEFAULT_RETRY_POLICY.delay_max_seconds, default("RetryDelayMaxSeconds"));
    const { assert!(!DEFAULT_RETRY_POLICY.voicemail) };
}

#[test]
fn whoever_takes_messages_has_a_sixth_of_their_visibility_timeout() {
    for (function, timeout_max, queue) in [("ConsumerFunction", 10, "EventsQueue"), ("DialerFunction", 30, "DialQueue")]
    {
        let timeout = properties(function)["Timeout"].as_u64().unwrap();
        let visibility = properties(queue)["VisibilityTimeout"].as_u64().unwrap();
        assert!(visibility >= 6 * timeout, "{queue} {visibility} s, {function} {timeout} s");
        assert!(timeout <= timeout_max, "{function}");
    }
}

#[test]
fn dialer_outlives_the_wait_for_an_answer_and_for_its_turn() {
    let timeout = properties("DialerFunction")["Timeout"].as_f64().unwrap();
    let answer = constant("shared/aws/src/", "REQUEST_TIMEOUT");
    // At the lowest rate there is one lane, and both waits run at the same time.
    let turn = 1.0 / constant("shared/providers/src/", "PER_SECOND_MIN");
    assert!(2.0 * answer.max(turn) < timeout, "{answer} s and {turn} s in {timeout} s");
}

#[test]
fn dial_queue_forgets_no_claim_before_it_expires() {
    let retention = properties("DialQueue")["MessageRetentionPeriod"].as_u64().unwrap();
    assert!(retention > switchhook_scheduler::LEASE.as_secs());
}

#[test]
fn local_tables_are_those_of_the_template() {
    let sources = sources("local/src/");
    let check = |declared: &Value, kind: &str| {
        let name = declared["AttributeName"].as_str().unwrap();
        let as_json = format!("{{\"AttributeName\": \"{name}\", \"{kind}\": \"{}\"}}", scalar(&declared[kind]));
        assert!(sources.contains(&as_json), "{as_json}");
    };
    let all = |value: &Value| value.as_array().unwrap().clone();
    for table in ["InboxTable", "CallsTable"] {
        let table = properties(table);
        let indexes = all(&table["GlobalSecondaryIndexes"]);
        assert!(!indexes.is_empty());
        all(&table["AttributeDefinitions"]).iter().for_each(|declared| check(declared, "AttributeType"));
        all(&table["KeySchema"]).iter().for_each(|declared| check(declared, "KeyType"));
        for index in indexes {
            let name = index["IndexName"].as_str().unwrap();
            assert!(sources.contains(&format!("\"IndexName\": \"{name}\"")), "{name}");
            all(&index["KeySchema"]).iter().for_each(|declared| check(declared, "KeyType"));
        }
    }
}
