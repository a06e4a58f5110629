//! The local cloud has the queues, tables, batches and limits of the template.

use serde_json::{Value, json};
use switchhook_aws::provider::DIAL_TIME_MAX;
use switchhook_local::{
    CALL_RETENTION, DEFAULT_RETRY_POLICY, DIAL_BATCH, DIAL_QUEUE, DIALERS, DUE_BATCH, DUE_QUEUE,
    EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, INBOX_RETENTION, MAX_RECEIVE_COUNT, QUEUE_BATCH, RECORD_AGE_MAX,
    RELAY_FAILURES_QUEUE, REPAIR_BATCH, REPAIR_QUEUE, REPAIR_WORKERS, STREAM_BATCH, stack_queues, stack_tables,
};
use switchhook_providers::PER_SECOND_MIN;

use super::{TEMPLATE, scalar};
use crate::files::yaml;

/// The properties of a resource, by its name in the template.
fn properties(name: &str) -> Value {
    let resource = &yaml(TEMPLATE)["Resources"][name];
    assert!(resource.is_object(), "the template has no resource {name}");
    resource["Properties"].clone()
}

/// The default value of a parameter of the template, as text.
fn default_of(parameter: &str) -> String {
    scalar(&yaml(TEMPLATE)["Parameters"][parameter]["Default"])
}

#[test]
fn local_queues_are_those_of_the_template() {
    let max_receive_count = default_of("MaxReceiveCount");
    for queue in stack_queues(MAX_RECEIVE_COUNT) {
        let resource = match queue.name.as_str() {
            EVENTS_QUEUE => "EventsQueue",
            EVENTS_DEAD_LETTER_QUEUE => "EventsDlq",
            RELAY_FAILURES_QUEUE => "RelayFailuresQueue",
            DIAL_QUEUE => "DialQueue",
            DUE_QUEUE => "DueQueue",
            REPAIR_QUEUE => "RepairQueue",
            other => panic!("add the queue {other} of the local cloud to this test"),
        };
        let properties = properties(resource);
        assert_eq!(queue.fifo, properties["FifoQueue"] == true, "{}", queue.name);
        // If the template has no value, the default of SQS applies.
        let timeout_s = properties["VisibilityTimeout"].as_u64().unwrap_or(30);
        assert_eq!(queue.visibility_timeout_ms / 1_000, timeout_s, "{}", queue.name);
        assert_eq!(properties["MessageRetentionPeriod"], queue.retention_ms / 1_000, "{}", queue.name);
        match queue.redrive_policy {
            Some(redrive) => {
                assert_eq!(properties["RedrivePolicy"]["maxReceiveCount"], json!({"!Ref": "MaxReceiveCount"}));
                assert_eq!(redrive.max_receive_count.to_string(), max_receive_count);
                assert_eq!(redrive.dead_letter_queue, EVENTS_DEAD_LETTER_QUEUE);
            }
            None => assert!(properties["RedrivePolicy"].is_null(), "{}", queue.name),
        }
    }
}

#[test]
fn local_batches_and_retentions_are_those_of_the_template() {
    assert_eq!(properties("ConsumerMapping")["BatchSize"], QUEUE_BATCH);
    assert_eq!(properties("RelayMapping")["BatchSize"], STREAM_BATCH);
    assert_eq!(properties("DialerMapping")["BatchSize"], DIAL_BATCH);
    assert_eq!(properties("DueCallsMapping")["BatchSize"], DUE_BATCH);
    assert_eq!(properties("DueQueueMapping")["BatchSize"], DUE_BATCH);
    assert_eq!(default_of("DialerMaxConcurrency"), DIALERS.to_string());
    assert_eq!(properties("RepairQueueMapping")["BatchSize"], REPAIR_BATCH);
    assert_eq!(properties("RepairQueueMapping")["ScalingConfig"]["MaximumConcurrency"], REPAIR_WORKERS);
    assert_eq!(properties("RelayMapping")["MaximumRecordAgeInSeconds"], RECORD_AGE_MAX.as_secs());
    for (parameter, retention) in [("InboxRetentionDays", INBOX_RETENTION), ("CallRetentionDays", CALL_RETENTION)] {
        let days: u64 = default_of(parameter).parse().unwrap();
        assert_eq!(days * 24 * 60 * 60, retention.as_secs(), "{parameter}");
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
    let queues = [
        ("ConsumerFunction", 10, "EventsQueue"),
        ("DialerFunction", 30, "DialQueue"),
        ("SchedulerFunction", 50, "DueQueue"),
    ];
    for (function, timeout_max, queue) in queues {
        let timeout = properties(function)["Timeout"].as_u64().unwrap();
        let visibility = properties(queue)["VisibilityTimeout"].as_u64().unwrap();
        assert!(visibility >= 6 * timeout, "{queue} {visibility} s, {function} {timeout} s");
        assert!(timeout <= timeout_max, "{function}");
    }
}

#[test]
fn dialer_outlives_the_wait_for_an_answer_and_for_its_turn() {
    let timeout = properties("DialerFunction")["Timeout"].as_f64().unwrap();
    let answer = DIAL_TIME_MAX.as_secs_f64();
    // At the lowest rate, a provider has one lane. The wait for the answer and the wait until the next dial begin
    // together.
    let turn = 1.0 / PER_SECOND_MIN;
    assert!(2.0 * answer.max(turn) < timeout, "{answer} s and {turn} s in {timeout} s");
}

#[test]
fn local_stream_passes_on_the_records_that_the_template_passes_on() {
    let filters = properties("DueCallsMapping")["FilterCriteria"]["Filters"].clone();
    let pattern: Value = serde_json::from_str(filters[0]["Pattern"].as_str().unwrap()).unwrap();
    let due_soon = json!({(switchhook_local::stream::DUE_SOON): {"N": [{"exists": true}]}});
    assert_eq!(pattern, json!({"dynamodb": {"NewImage": due_soon}}));
}

#[test]
fn dial_queue_forgets_no_claim_before_it_expires() {
    let retention = properties("DialQueue")["MessageRetentionPeriod"].as_u64().unwrap();
    assert!(retention > switchhook_scheduler::LEASE.as_secs());
}

#[test]
fn local_tables_are_those_of_the_template() {
    // Emulators and AWS take the definitions of attributes in any order.
    fn sorted(definitions: &Value) -> Vec<String> {
        let mut texts: Vec<String> = definitions.as_array().unwrap().iter().map(Value::to_string).collect();
        texts.sort();
        texts
    }
    for table in stack_tables("InboxTable", "CallsTable") {
        let name = table["TableName"].as_str().unwrap();
        let mut properties = properties(name);
        let indexes = properties["GlobalSecondaryIndexes"].as_array_mut().unwrap();
        for index in indexes.iter_mut() {
            index.as_object_mut().unwrap().remove("ProvisionedThroughput");
        }
        assert_eq!(table["KeySchema"], properties["KeySchema"], "{name}");
        assert_eq!(table["GlobalSecondaryIndexes"], properties["GlobalSecondaryIndexes"], "{name}");
        assert_eq!(sorted(&table["AttributeDefinitions"]), sorted(&properties["AttributeDefinitions"]), "{name}");
    }
}
