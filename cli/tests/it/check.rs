//! `switchhook check`: on a stack that looks deployed, each step failed once, and on a `switchhook dev`.

use std::process::Output;

use serde_json::{Value, json};

use crate::fake_aws::{FakeAws, NAME, account, described, xml_list};
use crate::stack::{KEY, Scratch, Stack, aws, switchhook, text};

/// Answers, by the names of their operations, that make one step fail.
type Answers<'a> = &'a [(&'a str, u16, String)];
/// Answers, environment variables, exit status, the step that fails, and texts of its advice.
type Unreachable<'a> = (Answers<'a>, &'a [(&'a str, Option<&'a str>)], i32, &'a str, &'a [&'a str]);
/// Answers, the step that fails, and texts of its advice.
type Failure<'a> = (Vec<(&'a str, u16, String)>, &'a str, &'a [&'a str]);

/// Returns the result, the text and the advice of each step.
fn steps(output: &Output) -> Vec<(String, String, String)> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    let field = |step: &Value, name: &str| step[name].as_str().unwrap_or_default().to_owned();
    let steps = report["steps"].as_array().expect("steps");
    let told = |step: &Value| format!("{} → {}", field(step, "text"), field(step, "advice"));
    steps.iter().map(|step| (field(step, "step"), field(step, "result"), told(step))).collect()
}

/// Returns the names of the steps with this result.
fn with_result<'a>(steps: &'a [(String, String, String)], result: &str) -> Vec<&'a str> {
    steps.iter().filter(|(_, found, _)| found == result).map(|(step, _, _)| step.as_str()).collect()
}

fn refused(code: &str) -> String {
    json!({"__type": code, "message": "no"}).to_string()
}

/// Returns the id of the check in its report.
fn id_of(output: &Output) -> String {
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["check_id"].as_str().expect("an id").to_owned()
}

/// People sign in with single sign-on, or with a program that prints credentials.
#[test]
fn profile_of_a_person_signs_the_requests() {
    let (scratch, stack) = Stack::quiet();
    let aws = FakeAws::start(&stack, &[]);
    let credentials = scratch.0.join("credentials");
    let printed = json!({"Version": 1, "AccessKeyId": "test", "SecretAccessKey": "test"});
    std::fs::write(&credentials, printed.to_string()).expect("the file is written");
    let profiles = format!(
        "[profile process]\ncredential_process = cat {}\n\n[profile person]\nsso_session = company\nsso_account_id = 123456789012\n\
         sso_role_name = operator\n\n[sso-session company]\nsso_start_url = http://127.0.0.1:1/start\nsso_region = us-east-1\n",
        credentials.display()
    );
    let config = scratch.0.join("config");
    std::fs::write(&config, profiles).expect("the file is written");
    let first_step = |profile: &str| {
        let variables = [
            ("AWS_ACCESS_KEY_ID", None),
            ("AWS_SECRET_ACCESS_KEY", None),
            ("AWS_CONFIG_FILE", config.to_str()),
            ("AWS_PROFILE", Some(profile)),
            ("HOME", scratch.0.to_str()),
        ];
        steps(&aws.run(&["check", "--json"], &variables)).first().cloned().expect("a step")
    };
    let (step, result, told) = first_step("process");
    assert_eq!((step.as_str(), result.as_str()), ("credentials", "passed"), "{told}");
    // This person has not signed in.
    let (step, result, told) = first_step("person");
    assert_eq!((step.as_str(), result.as_str()), ("credentials", "failed"), "{told}");
    assert!(told.contains("token") && !told.contains("feature"), "{told}");
}

#[test]
fn healthy_stack_passes_every_step_and_nothing_is_left() {
    let (_scratch, stack) = Stack::quiet();
    let aws = FakeAws::start(&stack, &[]);
    let output = aws.run(&["check", "--json"], &[]);
    let steps = steps(&output);
    assert_eq!(output.status.code(), Some(0), "{steps:#?}");
    let all = [
        "credentials",
        "stack",
        "parameters",
        "functions",
        "concurrency",
        "event sources",
        "schedules",
        "alarms",
        "alarm topic",
        "subscribers",
        "key",
        "subscription",
        "webhook",
        "inbox",
        "fold",
        "call",
        "domain event",
        "clean-up",
    ];
    assert_eq!(with_result(&steps, "passed"), all, "{steps:#?}");
    let told = |step: &str| steps.iter().find(|(name, _, _)| name == step).expect("the step").2.clone();
    assert!(told("domain event").contains("call.canceled"), "{}", told("domain event"));
    assert!(told("call").contains("lifecycle canceled"), "{}", told("call"));
    let changes = [
        "CreateQueue",
        "PutRule",
        "SetQueueAttributes",
        "PutTargets",
        "PutEvents",
        "RemoveTargets",
        "DeleteRule",
        "DeleteQueue",
    ];
    assert_eq!(aws.changes(), changes);
    let id = id_of(&output);
    assert_eq!(stack.get(&format!("/call?id={id}")), None);
    assert_eq!(stack.get(&format!("/event/status?id=generic:{id}")), None);
    assert!(!text(&output.stdout).contains(KEY));

    let output = aws.run(&["check"], &[]);
    let printed = text(&output.stdout);
    assert!(
        printed.starts_with("ok       credentials    arn:aws:iam::123456789012:user/anna in us-east-1\n"),
        "{printed}"
    );
    assert!(printed.ends_with(": the stack works\n"), "{printed}");
}

#[test]
fn local_stack_is_walked_too() {
    let (_scratch, stack) = Stack::quiet();
    let output = stack.switchhook(&["check"]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}{}", text(&output.stderr));
    let names: Vec<&str> = printed.lines().filter_map(|line| line.get(9..22)).map(str::trim).collect();
    assert_eq!(
        names[..8],
        ["stack", "key", "webhook", "inbox", "fold", "call", "domain event", "clean-up"],
        "{printed}"
    );
    let id = printed.lines().last().and_then(|line| line.split(':').next()).expect("an id").to_owned();
    assert_eq!(stack.get(&format!("/call?id={id}")), None);
    let events = stack.domain_events(None);
    assert!(events.iter().all(|(_, _, event)| event["call_id"] == *id), "{events:?}");
    // A call without history would be repaired, and published, by the sweep or the drift check.
    for schedule in [&["reconcile"][..], &["reconcile", "--drift"]] {
        assert_eq!(stack.switchhook(schedule).status.code(), Some(0));
    }
    assert_eq!(stack.get(&format!("/call?id={id}")), None);
    let of_calls = stack.domain_events(None).into_iter().filter(|event| event.1 != "operator.action");
    assert_eq!(of_calls.count(), events.len());
}

/// Nothing in a frozen stack can be changed, so the check begins nothing that it would have to remove.
#[test]
fn frozen_stack_is_told_as_such() {
    let scratch = Scratch::new();
    let data = scratch.0.join("calls");
    let data = data.to_str().expect("UTF-8");
    let output = switchhook(&["demo", "--calls", "2", "--data", data]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let stack = Stack::start(&["--data", data, "--freeze"]);
    let output = stack.switchhook(&["check"]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}{}", text(&output.stderr));
    let told: Vec<&str> = printed.lines().collect();
    let [step, advice, end] = told[..] else { panic!("{printed}") };
    let frozen = format!("the local stack at {} is frozen, so nothing in it can be changed", stack.url);
    assert_eq!(step, format!("FAILED   stack          {frozen}"));
    assert!(
        advice.ends_with("→ start `switchhook dev --data DIR` without --freeze, and run the check again"),
        "{advice}"
    );
    assert!(end.ends_with(": the stack does not pass the check"), "{end}");
}

#[test]
fn stack_that_cannot_be_reached_or_used_ends_the_check() {
    let (_scratch, stack) = Stack::quiet();
    let missing = "<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id switchhook does not exist</Message>\
                   </Error></ErrorResponse>";
    let expired = "<ErrorResponse><Error><Code>ExpiredToken</Code><Message>expired</Message></Error></ErrorResponse>";
    let event = |status: &'static str, reason: &'static str| {
        vec![
            ("LogicalResourceId", "EventsQueue"),
            ("ResourceType", "AWS::SQS::Queue"),
            ("ResourceStatus", status),
            ("ResourceStatusReason", reason),
        ]
    };
    let events =
        xml_list("StackEvents", &[event("DELETE_COMPLETE", ""), event("CREATE_FAILED", "the queue exists already")]);
    let no_keys = [("AWS_ACCESS_KEY_ID", None), ("AWS_SECRET_ACCESS_KEY", None)];
    let no_region = [("AWS_REGION", None)];
    let described = |status: &str| ("DescribeStacks", 200, described(status, None, &[]));
    let cases: &[Unreachable<'_>] = &[
        (&[], &no_keys, 2, "credentials", &["no AWS credentials", "AWS_PROFILE"]),
        (&[], &no_region, 2, "credentials", &["no AWS region", "--region"]),
        (
            &[("GetCallerIdentity", 403, expired.to_owned())],
            &[],
            2,
            "credentials",
            &["expired", "aws sts get-caller-identity"],
        ),
        (
            &[("DescribeStacks", 400, missing.to_owned())],
            &[],
            2,
            "stack",
            &["there is no stack switchhook in us-east-1", "--region", "docs/first-deployment.md"],
        ),
        (
            &[described("ROLLBACK_COMPLETE"), ("DescribeStackEvents", 200, events)],
            &[],
            1,
            "stack",
            &[
                "ROLLBACK_COMPLETE, because EventsQueue failed: the queue exists already",
                "aws cloudformation delete-stack",
            ],
        ),
        (&[described("REVIEW_IN_PROGRESS")], &[], 1, "stack", &["not carried out", "confirm the change set"]),
        (
            &[described("CREATE_IN_PROGRESS")],
            &[],
            1,
            "stack",
            &["CREATE_IN_PROGRESS", "wait until `sam deploy` has ended"],
        ),
        (
            &[described("CREATE_COMPLETE")],
            &[],
            1,
            "stack",
            &["lack ApiUrl", "not a Switchhook stack", "docs/deploy.md"],
        ),
    ];
    for (answers, variables, code, step, parts) in cases {
        let aws = FakeAws::start(&stack, answers);
        let output = aws.run(&["check", "--json"], variables);
        let steps = steps(&output);
        assert_eq!(output.status.code(), Some(*code), "{steps:#?}");
        assert_eq!(with_result(&steps, "failed"), [*step], "{steps:#?}");
        let (_, _, told) = steps.last().expect("a step");
        for part in *parts {
            assert!(told.contains(part), "{part} is not in {told}");
        }
        assert_eq!(aws.changes(), Vec::<String>::new());
        assert_eq!(text(&output.stderr).contains("could not be reached"), *code == 2);
    }
}

#[test]
fn parts_that_are_wrong_are_told_together_and_the_walk_goes_on() {
    let (_scratch, stack) = Stack::quiet();
    let names = stack.get("/stack").expect("names");
    let configuration = json!({"State": "Active", "LastUpdateStatus": "Successful"});
    let function = json!({"Configuration": configuration, "Concurrency": {"ReservedConcurrentExecutions": 0}});
    let pending = xml_list("Subscriptions", &[vec![("SubscriptionArn", "PendingConfirmation")]]);
    let alarm = json!({"MetricAlarms": [{"AlarmName": "switchhook-P1-relay-age", "StateValue": "ALARM"}]});
    let own = json!({"Rules": [{"Name": "switchhook-attention-1", "State": "ENABLED"}]});
    let aws = FakeAws::start(
        &stack,
        &[
            ("GetFunction", 200, function.to_string()),
            ("GetAccountSettings", 200, account(10)),
            (
                "GetEventSourceMapping",
                200,
                json!({"State": "Disabled", "StateTransitionReason": "USER_INITIATED"}).to_string(),
            ),
            ("GetSchedule", 200, json!({"State": "DISABLED"}).to_string()),
            ("DescribeAlarms", 200, alarm.to_string()),
            ("ListSubscriptionsByTopic", 200, format!("<R>{pending}</R>")),
            ("ListRules", 200, own.to_string()),
        ],
    );
    let output = aws.run(&["check", "--json"], &[]);
    let steps = steps(&output);
    assert_eq!(output.status.code(), Some(1), "{steps:#?}");
    assert_eq!(with_result(&steps, "failed"), ["functions", "event sources", "schedules"], "{steps:#?}");
    assert_eq!(with_result(&steps, "note"), ["concurrency", "alarms", "alarm topic", "subscribers"], "{steps:#?}");
    for (step, parts) in [
        (
            "functions",
            &["IngressFunction has a reserved concurrency of 0", "(and 1 more)", "delete-function-concurrency"][..],
        ),
        ("concurrency", &["may run 10 functions at once", "may use 70", "L-B99A9384", "ConsumerMaxConcurrency=2"]),
        ("event sources", &["ConsumerMapping is disabled (USER_INITIATED)", "--uuid 5b0e --enabled"]),
        ("schedules", &["SchedulerSchedule is DISABLED", "switchhook-schedule-1"]),
        ("alarms", &["switchhook-P1-relay-age", "switchhook status"]),
        ("alarm topic", &["wait for their confirmation", "AWS Notifications"]),
        ("subscribers", &["reach nobody", "docs/events.md#subscribe"]),
    ] {
        let (_, _, told) = steps.iter().find(|(name, _, _)| name == step).expect("the step");
        for part in parts {
            assert!(told.contains(part), "{part} is not in {told}");
        }
    }

    let keys = json!({"generic": {"keys": [KEY]}, "vapi": {"key": ["hunter2"]}}).to_string();
    let notes = [
        ("GetSecretValue", 200, json!({"SecretString": keys}).to_string()),
        ("DescribeStacks", 200, described("UPDATE_ROLLBACK_COMPLETE", Some(&names), &[("AlarmTopicArn", "")])),
        ("DescribeStackEvents", 200, "<R/>".to_owned()),
    ];
    let output = FakeAws::start(&stack, &notes).run(&["check", "--json"], &[]);
    let steps = self::steps(&output);
    assert_eq!(output.status.code(), Some(0), "a note is no failure: {steps:#?}");
    assert_eq!(with_result(&steps, "note"), ["stack", "alarm topic", "key"]);
    assert!(!text(&output.stdout).contains("hunter2"));
}

/// The stack had four shards, and the parameter says one.
#[test]
fn calls_in_shards_that_are_no_longer_read_are_a_failure() {
    let (_scratch, stack) = Stack::quiet();
    let names = stack.get("/stack").expect("names");
    assert_eq!(stack.switchhook(&["reconcile", "--drift"]).status.code(), Some(0));
    let smaller = described("CREATE_COMPLETE", Some(&names), &[("IndexShards", "1")]);
    let fake = FakeAws::start(&stack, &[("DescribeStacks", 200, smaller)]);
    let healthy = steps(&fake.run(&["check", "--json"], &[]));
    assert_eq!(with_result(&healthy, "failed"), [""; 0], "the other shards have no call: {healthy:#?}");
    let hidden = json!({"TableName": names["calls_table"], "Item": {
        "call_id": {"S": "hidden"}, "wake_key": {"S": "dial.retell#2"}, "wake_at": {"N": "4102444800000"},
    }});
    aws(&stack.url, "DynamoDB_20120810.PutItem", &hidden);
    let output = fake.run(&["check", "--json"], &[]);
    let steps = steps(&output);
    assert_eq!(output.status.code(), Some(1), "{steps:#?}");
    assert!(with_result(&steps, "failed").contains(&"parameters"), "{steps:#?}");
    let (_, _, told) = steps.iter().find(|(name, _, _)| name == "parameters").expect("the step");
    // With this number alone, all later events would be looked for in the shards of the first number.
    let advice = "deploy with the `IndexShards` that the stack had before; it had 4 shards: docs/deploy.md#more-shards";
    assert!(told.contains("with IndexShards=1") && told.contains(advice), "{told}");
}

#[test]
fn walk_ends_at_its_first_failure_with_advice_and_cleans_up() {
    let (_scratch, stack) = Stack::quiet();
    let secret = |text: &str| json!({"SecretString": text, "CreatedDate": 1_760_961_600.5}).to_string();
    let other_key = json!({"generic": {"keys": ["another key of the generic provider"]}}).to_string();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs();
    let new_key = json!({"SecretString": other_key, "CreatedDate": now - 5}).to_string();
    let webhook = |status: u16, body: &str| ("/webhooks/generic", status, body.to_owned());
    let error = |name: &str| json!({"error": name, "message": "no"}).to_string();
    let denied = refused("AccessDeniedException");
    let cases: Vec<Failure<'_>> = vec![
        (
            vec![("GetSecretValue", 200, secret("{}"))],
            "key",
            &["the secret is empty", "openssl rand -hex 32", "providers put"],
        ),
        (
            vec![("GetSecretValue", 200, secret(r#"{"retell": {"keys": ["a key of retell that is long enough"]}}"#))],
            "key",
            &["no key of the generic provider", "providers put FILE --stack switchhook --region us-east-1"],
        ),
        (
            vec![("GetSecretValue", 200, secret(r#"{"generic": {"key": ["hunter2"]}}"#))],
            "key",
            &["generic", "providers put"],
        ),
        (vec![("GetSecretValue", 400, denied.clone())], "key", &["need the permission secretsmanager:GetSecretValue"]),
        (vec![("CreateQueue", 400, denied.clone())], "subscription", &["need the permission sqs:CreateQueue"]),
        (vec![("ReceiveMessage", 200, "{}".to_owned())], "subscription", &["no trial event arrived", "--timeout"]),
        (vec![("GetSecretValue", 200, secret(&other_key))], "webhook", &["401 invalid_signature", "another key"]),
        (vec![("GetSecretValue", 200, new_key)], "webhook", &["401", "the key is new", "run the check again in 2"]),
        (
            vec![webhook(404, &error("unknown_provider"))],
            "webhook",
            &["knows no key", "aws logs tail /aws/lambda/switchhook-ingress"],
        ),
        (vec![webhook(503, &error("provider_disabled"))], "webhook", &["cannot read the entry", "providers put"]),
        (
            vec![webhook(503, &error("edge_disabled"))],
            "webhook",
            &["the entry `edge`", "providers put FILE --stack switchhook"],
        ),
        (vec![webhook(403, &error("edge_bypassed"))], "webhook", &["through its edge", "--webhook-url"]),
        (vec![webhook(403, &error("forbidden"))], "webhook", &["allowed_sources"]),
        (vec![webhook(403, r#"{"message":"Forbidden"}"#)], "webhook", &["did not reach ingress", "--webhook-url"]),
        (vec![webhook(404, r#"{"message":"Not Found"}"#)], "webhook", &["no such route", "--webhook-url"]),
        (vec![webhook(429, r#"{"message":"Too Many Requests"}"#)], "webhook", &["throttles", "WebhookRatePerSecond"]),
        (vec![webhook(500, &error("storage_failure"))], "webhook", &["could not store or queue", "aws logs tail"]),
        (
            vec![webhook(503, r#"{"message":"Service Unavailable"}"#)],
            "webhook",
            &["no answer from ingress", "throttled (see concurrency)", "aws logs tail"],
        ),
        (vec![("inbox GetItem", 400, denied.clone())], "inbox", &["dynamodb:GetItem"]),
        (vec![("inbox GetItem", 200, "{}".to_owned())], "inbox", &["the inbox does not have it", "another stack"]),
        (vec![("calls GetItem", 200, "{}".to_owned())], "fold", &["its call does not exist", "switchhook-consumer"]),
        (vec![("/call", 403, r#"{"message":"Forbidden"}"#.to_owned())], "call", &["execute-api:Invoke"]),
        (vec![("/call", 500, error("storage_failure"))], "call", &["answered 500", "switchhook-api"]),
    ];
    // The cases mostly wait.
    std::thread::scope(|scope| {
        for (answers, step, parts) in &cases {
            let stack = &stack;
            scope.spawn(move || {
                let aws = FakeAws::start(stack, answers);
                let output = aws.run(&["check", "--json", "--timeout", "10s"], &[]);
                let steps = steps(&output);
                assert_eq!(output.status.code(), Some(1), "{answers:?}: {steps:#?}");
                assert_eq!(with_result(&steps, "failed"), [*step], "{answers:?}: {steps:#?}");
                let (_, _, told) = steps.iter().find(|(name, _, _)| name == step).expect("the step");
                for part in *parts {
                    assert!(told.contains(part), "{part} is not in {told}");
                }
                let (last, _, _) = steps.last().expect("a step");
                assert_eq!(last, "clean-up", "{steps:#?}");
                let changes = aws.changes();
                let has = |change: &str| changes.iter().any(|one| one == change);
                assert_eq!(
                    has("DeleteQueue") && has("DeleteRule"),
                    has("PutRule") || has("CreateQueue"),
                    "{changes:?}"
                );
                assert!(!text(&output.stdout).contains("hunter2"));
            });
        }
    });
}

#[test]
fn domain_event_that_does_not_arrive_is_a_failure() {
    let (_scratch, stack) = Stack::quiet();
    let rejected =
        json!({"FailedEntryCount": 1, "Entries": [{"ErrorCode": "NotAuthorizedForSource", "ErrorMessage": "no"}]});
    let output = FakeAws::start(&stack, &[("PutEvents", 200, rejected.to_string())]).run(&["check", "--json"], &[]);
    let steps = steps(&output);
    assert_eq!(with_result(&steps, "failed"), ["subscription"], "{steps:#?}");
    assert_eq!(with_result(&steps, "skipped"), ["domain event"], "the rest of the path is walked: {steps:#?}");
}

#[test]
fn event_that_may_still_be_folded_is_kept_until_the_clean_up() {
    let (_scratch, stack) = Stack::quiet();
    let aws = FakeAws::start(&stack, &[("calls GetItem", 200, "{}".to_owned())]);
    let output = aws.run(&["check", "--json", "--timeout", "1s"], &[]);
    let steps = steps(&output);
    let (_, result, told) = steps.last().expect("a step");
    let id = id_of(&output);
    let command = format!("switchhook check --clean-up {id} --stack {NAME}");
    assert_eq!(result, "note");
    assert!(told.contains("kept the event") && told.contains(&command), "{told}");
    assert!(stack.get(&format!("/event/status?id=generic:{id}")).is_some());

    let output = aws.run(&["check", "--clean-up", &id], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("removed the rule, the queue, the event, the call"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(stack.get(&format!("/event/status?id=generic:{id}")), None);
    assert_eq!(stack.get(&format!("/call?id={id}")), None);
    let output = aws.run(&["check", "--clean-up", &id], &[]);
    assert_eq!(output.status.code(), Some(0), "a repetition is safe: {}", text(&output.stderr));
}

/// It looks at nothing else, so it must not say that the stack works.
#[test]
fn clean_up_says_what_it_has_found() {
    let (_scratch, stack) = Stack::quiet();
    let missing = [
        ("RemoveTargets", 400, refused("ResourceNotFoundException")),
        ("GetQueueUrl", 400, refused("AWS.SimpleQueueService.NonExistentQueue")),
    ];
    let aws = FakeAws::start(&stack, &missing);
    let output = aws.run(&["check", "--clean-up", "check-7f3a90c1d2e4"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("found nothing to remove"), "{printed}");
    assert!(printed.ends_with("check-7f3a90c1d2e4: no trace of it is left\n"), "{printed}");
}

#[test]
fn url_of_no_stack_is_an_error() {
    let output = switchhook(&["check", "--to", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2));
    let printed = text(&output.stdout);
    assert!(printed.starts_with("FAILED   stack          no answer from http://127.0.0.1:1"), "{printed}");
    assert!(printed.contains("→ check the network"), "{printed}");
}
