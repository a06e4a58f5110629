//! The parts of a deployed stack, as AWS sees them: functions, event sources, schedules, alarms and subscribers.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use serde_json::Value;
use switchhook_aws::config::whole_number;
use switchhook_aws::shards::Shards;
use switchhook_domain::{CallingWindow, ProviderSet};
use switchhook_providers::DialRates;

use super::step::{Finding, Steps};
use super::{advice, shards};
use crate::aws::{
    Alarm, AlarmState, AwsServices, Concurrency, EventSource, FunctionState, ProvisionedPollers, Resource, Rule,
    StackDescription, Topic,
};
use crate::error::Error;
use crate::stack::Stack;

/// Beginning of the names of the rules that checks make.
pub(super) const RULE_PREFIX: &str = "switchhook-check-";
/// Alarms that a note names.
const ALARMS_SHOWN_MAX: usize = 5;

/// Name in the template of the event source that has the pollers of `ConsumerPollers`.
const CONSUMER_MAPPING: &str = "ConsumerMapping";
/// Invocations that an event poller of Lambda makes at once.
const INVOCATIONS_PER_POLLER: u64 = 10;

/// A stack as CloudFormation describes it.
pub(super) struct Deployment {
    pub(super) services: AwsServices,
    pub(super) name: String,
    pub(super) described: StackDescription,
}

impl Deployment {
    /// Connects to the stack. `None` if it cannot be reached or used; then the last step says why.
    pub(super) async fn connect(self, steps: &mut Steps<'_>) -> Option<Stack> {
        let is_failure = ["ROLLBACK", "FAILED"].iter().any(|part| self.described.status.contains(part));
        let failure = if is_failure { self.services.first_failure(&self.name).await.ok().flatten() } else { None };
        let cause = failure.map(|(resource, reason)| format!(", because {resource} failed: {reason}"));
        let status = status(&self.name, &self.described.status, self.services.region(), &cause.unwrap_or_default());
        if status.is_failed() {
            steps.add("stack", status);
            return None;
        }
        match Stack::of_deployed(&self.name, &self.described, self.services) {
            Ok(stack) => {
                steps.add("stack", status);
                Some(stack)
            }
            Err(error) => {
                steps.add("stack", advice::failed(&error));
                None
            }
        }
    }
}

/// Judges the status of a stack. `cause` is the first failure of its latest operation, or empty.
fn status(name: &str, status: &str, region: &str, cause: &str) -> Finding {
    let delete = format!("aws cloudformation delete-stack --stack-name {name} --region {region}");
    match status {
        "CREATE_COMPLETE" | "UPDATE_COMPLETE" | "IMPORT_COMPLETE" | "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS" => {
            Finding::passed(format!("{name} in {region}: {status}"))
        }
        "UPDATE_ROLLBACK_COMPLETE" | "IMPORT_ROLLBACK_COMPLETE" => Finding::note(
            format!("{name} in {region}: {status}{cause}"),
            "the stack works as before its last update; correct the cause and deploy again",
        ),
        "ROLLBACK_COMPLETE" | "ROLLBACK_FAILED" => Finding::failed(
            format!("{name} in {region}: {status}{cause}"),
            format!(
                "a stack that was never created cannot be updated. Correct the cause, delete the stack, wait a minute (SQS does \
                 not reuse a queue's name sooner), and deploy again: {delete}"
            ),
        ),
        "REVIEW_IN_PROGRESS" => Finding::failed(
            format!("{name} in {region}: {status}: its first deployment was prepared and not carried out"),
            "run `sam deploy` again and confirm the change set",
        ),
        // A deployment with --disable-rollback ends so. CloudFormation updates such a stack only with this option.
        "CREATE_FAILED" | "UPDATE_FAILED" => Finding::failed(
            format!("{name} in {region}: {status}{cause}"),
            format!(
                "correct the cause and deploy again with --disable-rollback, or undo the deployment: aws cloudformation \
                 rollback-stack --stack-name {name} --region {region}"
            ),
        ),
        "UPDATE_ROLLBACK_FAILED" => Finding::failed(
            format!("{name} in {region}: {status}{cause}"),
            format!(
                "correct the cause, then: aws cloudformation continue-update-rollback --stack-name {name} --region {region}"
            ),
        ),
        "IMPORT_ROLLBACK_FAILED" => Finding::failed(
            format!("{name} in {region}: {status}{cause}"),
            format!(
                "see which resource failed, and correct the cause: aws cloudformation describe-stack-events \
                 --stack-name {name} --region {region}"
            ),
        ),
        "DELETE_FAILED" | "DELETE_COMPLETE" => Finding::failed(
            format!("{name} in {region}: {status}{cause}"),
            format!("delete the stack completely, and deploy it again: {delete}"),
        ),
        _ => Finding::failed(
            format!("{name} in {region}: {status}"),
            "AWS is working on the stack: wait until `sam deploy` has ended, and run the check again",
        ),
    }
}

/// Checks the parts of a stack that work without a webhook.
pub(super) async fn check(
    stack: &Stack,
    services: &AwsServices,
    parameters: &BTreeMap<String, String>,
    steps: &mut Steps<'_>,
) {
    let parameters_read = readable(parameters);
    let hidden = if parameters_read.is_failed() { None } else { shards::hidden_calls(stack).await };
    steps.add("parameters", hidden.unwrap_or(parameters_read));
    let resources = match services.stack_resources(&stack.names.stack).await {
        Ok(resources) => resources,
        Err(error) => {
            steps.add("functions", advice::failed(&error));
            return;
        }
    };
    let of_kind = |kind: &str| resources.iter().filter(|one| one.kind == kind).cloned().collect::<Vec<Resource>>();
    let (functions, mappings) = (of_kind("AWS::Lambda::Function"), of_kind("AWS::Lambda::EventSourceMapping"));
    let schedules = of_kind("AWS::Scheduler::Schedule");
    let states = join_all(functions.iter().map(|one| services.function_state(&one.physical_id))).await;
    steps.add("functions", judged(&functions, states, "functions are active", function));
    let (limit, rates) = (services.concurrency().await, stack.dial_rates());
    steps.add(
        "concurrency",
        limit.map_or_else(|error| advice::failed(&error), |limit| concurrency(limit, parameters, &rates)),
    );
    let states = join_all(mappings.iter().map(|one| services.event_source(&one.physical_id))).await;
    let judge = |resource: &Resource, source: &EventSource| event_source(resource, source, parameters);
    steps.add("event sources", judged(&mappings, states, "event sources are enabled", judge));
    let states = join_all(schedules.iter().map(|one| services.schedule_state(&one.physical_id))).await;
    steps.add("schedules", judged(&schedules, states, "schedules are enabled", schedule));
    let alarms = services.alarms(&stack.names.stack).await;
    steps.add("alarms", alarms.map_or_else(|error| advice::failed(&error), |alarms| firing(&alarms)));
    steps.add("alarm topic", topic(services, parameters.get("AlarmTopicArn").map_or("", String::as_str)).await);
    let own = of_kind("AWS::Events::Rule");
    let rules = services.rules(&stack.names.event_bus).await;
    steps.add("subscribers", rules.map_or_else(|error| advice::failed(&error), |rules| subscribers(&rules, &own)));
}

/// Judges the parameters that functions parse. An older template allowed texts with which they do not start, and none knows the time
/// zones.
fn readable(parameters: &BTreeMap<String, String>) -> Finding {
    let text = |name: &str| parameters.get(name).map(String::as_str).unwrap_or_default();
    let window = text("CallingWindow");
    let [calls, inbox] = ["CallRetentionDays", "InboxRetentionDays"].map(|name| whole_number(text(name)));
    let is_inbox_longer = calls.zip(inbox).is_some_and(|(calls, inbox)| calls <= inbox);
    let too_short =
        "must be more than InboxRetentionDays, or a repeated request may bring back a call whose row has expired";
    let checks = [
        (
            "OutcomeProviders",
            text("OutcomeProviders").parse::<ProviderSet>().map(drop).map_err(|error| error.to_string()),
        ),
        ("DialRates", text("DialRates").parse::<DialRates>().map(drop).map_err(|error| error.to_string())),
        ("IndexShards", text("IndexShards").parse::<Shards>().map(drop).map_err(|error| error.to_string())),
        ("CallingWindow", if window.is_empty() { Ok(()) } else { usable(window) }),
        ("CallRetentionDays", if is_inbox_longer { Err(too_short.to_owned()) } else { Ok(()) }),
    ];
    let mut problems = checks.iter().filter_map(|(name, checked)| Some((name, checked.as_ref().err()?)));
    match problems.next() {
        Some((name, problem)) => Finding::failed(
            format!("the functions cannot use {name}={}: {problem}", text(name)),
            "correct the parameter, and deploy again: docs/configuration.md",
        ),
        None => Finding::passed("the functions can read the parameters"),
    }
}

fn usable(window: &str) -> Result<(), String> {
    window.parse::<CallingWindow>().and_then(|window| window.check()).map_err(|error| error.to_string())
}

/// Judges each resource by its state. Returns the first failure, else the first note, else that all are right.
fn judged<T>(
    resources: &[Resource],
    states: Vec<Result<T, Error>>,
    all: &str,
    judge: impl Fn(&Resource, &T) -> Option<Finding>,
) -> Finding {
    let mut found = Vec::new();
    for (resource, state) in resources.iter().zip(states) {
        match state {
            Ok(state) => found.extend(judge(resource, &state)),
            Err(error) => {
                let mut failed = advice::failed(&error);
                failed.text = format!("{}: {}", resource.logical_id, failed.text);
                found.push(failed);
            }
        }
    }
    let worst = found.iter().find(|finding| finding.is_failed()).or_else(|| found.first());
    let Some(worst) = worst.cloned() else { return Finding::passed(format!("{} {all}", resources.len())) };
    match found.len() {
        1 => worst,
        count => Finding { text: format!("{} (and {} more)", worst.text, count - 1), ..worst },
    }
}

fn function(resource: &Resource, state: &FunctionState) -> Option<Finding> {
    let (name, physical) = (&resource.logical_id, &resource.physical_id);
    let FunctionState { state, state_reason, last_update, last_update_reason, reserved } = state;
    if *reserved == Some(0) {
        return Some(Finding::failed(
            format!("{name} has a reserved concurrency of 0, so Lambda throttles every invocation"),
            format!("aws lambda delete-function-concurrency --function-name {physical}"),
        ));
    }
    match (state.as_str(), last_update.as_str()) {
        ("Failed", _) => {
            Some(Finding::failed(format!("{name} is Failed: {state_reason}"), "correct the cause, and deploy again"))
        }
        (_, "Failed") => Some(Finding::failed(
            format!("the last update of {name} failed: {last_update_reason}"),
            "the function runs its version before; correct the cause, and deploy again",
        )),
        ("Pending", _) | (_, "InProgress") => Some(Finding::failed(
            format!("{name} is being made or updated: {state_reason}{last_update_reason}"),
            "wait a minute, and run the check again",
        )),
        // A function without a call for weeks. The first invocations fail while Lambda prepares it again.
        ("Inactive", _) => Some(Finding::note(
            format!("{name} is Inactive: Lambda put it to rest, and prepares it at its next invocation"),
            "run the check again if it fails below",
        )),
        // Emulators do not always name a state.
        ("Active" | "", _) => None,
        (other, _) => Some(Finding::failed(format!("{name} is {other}: {state_reason}"), "deploy again")),
    }
}

fn concurrency(limit: Concurrency, parameters: &BTreeMap<String, String>, rates: &DialRates) -> Finding {
    let Invocations { consumers, dialers } = invocations(parameters);
    let wanted = consumers + dialers;
    let Concurrency { all, unreserved } = limit;
    if unreserved > wanted {
        let rates_want = u64::from(rates.dialers_wanted());
        return if dialers < rates_want {
            slow(dialers, rates_want, unreserved > consumers + rates_want)
        } else {
            Finding::passed(format!("this account may run {unreserved} functions at once in the region"))
        };
    }
    Finding::note(
        format!(
            "this account may run {all} functions at once in the region, {unreserved} of them without a reservation, and the \
             consumer and the dialer alone may use {wanted}: throttled webhooks are answered 5xx, and throttled batches use \
             up the receives of their messages"
        ),
        "ask for more (new accounts have 10): aws service-quotas request-service-quota-increase --service-code lambda \
         --quota-code L-B99A9384 --desired-value 1000. Until then, deploy with ConsumerMaxConcurrency=2, \
         DialerMaxConcurrency=3 and ConsumerPollers=0, and name in DialRates only the providers that you use",
    )
}

/// Note about dialers that are too few for the rates. `is_allowed` if the account may run as many as the rates want.
fn slow(dialers: u64, rates_want: u64, is_allowed: bool) -> Finding {
    let text = format!(
        "DialerMaxConcurrency is {dialers}, and the calls per second in DialRates need {rates_want}: each provider is asked to place \
         {} % of them",
        dialers * 100 / rates_want
    );
    let advice = if is_allowed {
        format!(
            "deploy with DialerMaxConcurrency={rates_want} or more, or name in DialRates only the providers that you use"
        )
    } else {
        "name in DialRates only the providers that you use, and ask for more concurrent invocations: docs/deploy.md#concurrency".to_owned()
    };
    Finding::note(text, advice)
}

/// Most invocations that two functions may have at the same time.
#[derive(Debug, PartialEq, Eq)]
struct Invocations {
    consumers: u64,
    dialers: u64,
}

fn invocations(parameters: &BTreeMap<String, String>) -> Invocations {
    let consumers = match number(parameters, "ConsumerPollers") {
        0 => number(parameters, "ConsumerMaxConcurrency"),
        pollers => pollers * INVOCATIONS_PER_POLLER,
    };
    Invocations { consumers, dialers: number(parameters, "DialerMaxConcurrency") }
}

/// Returns the value of a parameter that is a number. 0 if the stack does not have it.
fn number(parameters: &BTreeMap<String, String>, name: &str) -> u64 {
    parameters.get(name).and_then(|value| whole_number(value)).map_or(0, u64::from)
}

fn event_source(resource: &Resource, source: &EventSource, parameters: &BTreeMap<String, String>) -> Option<Finding> {
    let (name, uuid) = (&resource.logical_id, &resource.physical_id);
    let reason = source.state_transition_reason.as_deref().unwrap_or_default();
    match (source.state.as_str(), source.last_processing_result.as_deref().unwrap_or_default()) {
        ("Enabled", result) if result.starts_with("PROBLEM") => Some(Finding::note(
            format!("the event source {name} reports: {result}"),
            "if the check fails below, read the log of the function",
        )),
        ("Enabled", _) if name == CONSUMER_MAPPING => pollers(resource, source, number(parameters, "ConsumerPollers")),
        ("Enabled", _) => None,
        ("Disabled" | "Disabling", _) => Some(Finding::failed(
            format!("the event source {name} is disabled ({reason}), so its function receives nothing"),
            format!("aws lambda update-event-source-mapping --uuid {uuid} --enabled"),
        )),
        (state, _) => Some(Finding::failed(
            format!("the event source {name} is {state}: {reason}"),
            "wait a minute, and run the check again",
        )),
    }
}

/// Compares the event pollers of an event source with the parameter. CloudFormation does not remove those that a deployment made.
fn pollers(resource: &Resource, source: &EventSource, wanted: u64) -> Option<Finding> {
    let (name, uuid) = (&resource.logical_id, &resource.physical_id);
    let ProvisionedPollers { minimum_pollers: kept } = source.provisioned_poller_config.unwrap_or_default();
    let config = match wanted {
        0 => "'{}'".to_owned(),
        wanted => format!("MinimumPollers={wanted},MaximumPollers={wanted}"),
    };
    (kept != wanted).then(|| {
        Finding::note(
            format!("{name} has {kept} event pollers, and ConsumerPollers is {wanted}"),
            format!(
                "a deployment does not change them: aws lambda update-event-source-mapping --uuid {uuid} \
                 --provisioned-poller-config {config}"
            ),
        )
    })
}

fn schedule(resource: &Resource, state: &String) -> Option<Finding> {
    (state != "ENABLED").then(|| {
        Finding::failed(
            format!("the schedule {} is {state}, so its function does not run by itself", resource.logical_id),
            format!("enable the schedule {} in the console of EventBridge Scheduler", resource.physical_id),
        )
    })
}

fn firing(alarms: &[Alarm]) -> Finding {
    let names: Vec<&str> =
        alarms.iter().filter(|alarm| alarm.state == AlarmState::Alarm).map(|alarm| alarm.name.as_str()).collect();
    if names.is_empty() {
        return Finding::passed(format!("none of {} alarms fires", alarms.len()));
    }
    let more = names.len().saturating_sub(ALARMS_SHOWN_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.get(..ALARMS_SHOWN_MAX.min(names.len())).unwrap_or_default().join(", ");
    Finding::note(
        format!("in alarm: {shown}{more}"),
        "ask `switchhook status`; infra/runbook.md has a section for each",
    )
}

async fn topic(services: &AwsServices, arn: &str) -> Finding {
    if arn.is_empty() {
        return Finding::note(
            "the alarms notify nobody",
            "make an SNS topic with a subscription, and deploy with AlarmTopicArn=ARN: docs/deploy.md",
        );
    }
    match services.topic(arn).await {
        Ok(topic) => subscribed(arn, &topic),
        Err(error) => advice::failed(&error),
    }
}

fn subscribed(arn: &str, topic: &Topic) -> Finding {
    let Topic { confirmed, pending, policy } = topic;
    match (confirmed, pending) {
        (0, 0) => Finding::note(
            format!("the topic {arn} has no subscription, so the alarms notify nobody"),
            format!("aws sns subscribe --topic-arn {arn} --protocol email --notification-endpoint ADDRESS"),
        ),
        (0, pending) => Finding::note(
            format!(
                "{pending} subscription(s) of the topic {arn} wait for their confirmation, so the alarms notify nobody"
            ),
            "open the message from AWS Notifications in the mailbox, and follow its link",
        ),
        _ if !allows_rules(policy) => Finding::note(
            "the policy of the alarm topic does not allow events.amazonaws.com to publish, so the messages with the ids of dead \
             letters do not arrive",
            "add the statement of docs/deploy.md to the topic's policy; docs/first-deployment.md has the command for a new topic",
        ),
        _ => Finding::passed(format!("{confirmed} confirmed subscription(s)")),
    }
}

/// True if a statement of the policy names EventBridge or everybody.
fn allows_rules(policy: &str) -> bool {
    let policy: Value = serde_json::from_str(policy).unwrap_or_default();
    let names_rules = |value: &Value| value == "events.amazonaws.com" || value == "*";
    let mut statements = policy.get("Statement").and_then(Value::as_array).into_iter().flatten();
    statements.any(|statement| {
        // The policy that SNS makes itself allows everybody of the owner's account, and EventBridge is not part of it.
        let is_of_owner =
            statement.get("Condition").is_some_and(|condition| condition.to_string().contains("SourceOwner"));
        let principal = statement.get("Principal").cloned().unwrap_or_default();
        let services = principal.get("Service").cloned().unwrap_or_default();
        let everybody = principal.get("AWS").cloned().unwrap_or_default();
        let is_named = [&principal, &services, &everybody]
            .into_iter()
            .chain(services.as_array().into_iter().flatten())
            .any(names_rules);
        is_named && !is_of_owner && statement.get("Effect").is_some_and(|effect| effect == "Allow")
    })
}

fn subscribers(rules: &[Rule], own: &[Resource]) -> Finding {
    // The physical id of a rule is `bus|rule`.
    let is_own = |rule: &Rule| own.iter().any(|one| one.physical_id.rsplit('|').next() == Some(rule.name.as_str()));
    let of_others: Vec<&Rule> =
        rules.iter().filter(|rule| !is_own(rule) && !rule.name.starts_with(RULE_PREFIX)).collect();
    let enabled = of_others.iter().filter(|rule| rule.state != "DISABLED").count();
    match (of_others.len(), enabled) {
        (0, _) => Finding::note(
            "the event bus has no rule, so the domain events reach nobody",
            "subscribe: docs/events.md#subscribe",
        ),
        (all, 0) => Finding::note(
            format!("all {all} rule(s) of the event bus are disabled, so the domain events reach nobody"),
            "enable one: aws events enable-rule",
        ),
        (_, enabled) => Finding::passed(format!("{enabled} rule(s) on the event bus")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::StepResult;
    use super::*;

    #[test]
    fn advice_about_a_stack_is_a_command_that_its_status_allows() {
        let works = StepResult::Passed;
        let undo = "deploy again with --disable-rollback, or undo the deployment: aws cloudformation rollback-stack \
                    --stack-name s ";
        for (status, result, advice) in [
            ("CREATE_COMPLETE", works, ""),
            ("UPDATE_COMPLETE", works, ""),
            ("IMPORT_COMPLETE", works, ""),
            ("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", works, ""),
            ("UPDATE_ROLLBACK_COMPLETE", StepResult::Note, "deploy again"),
            ("IMPORT_ROLLBACK_COMPLETE", StepResult::Note, "deploy again"),
            ("ROLLBACK_COMPLETE", StepResult::Failed, "deploy again: aws cloudformation delete-stack --stack-name s "),
            ("ROLLBACK_FAILED", StepResult::Failed, "deploy again: aws cloudformation delete-stack --stack-name s "),
            ("CREATE_FAILED", StepResult::Failed, undo),
            ("UPDATE_FAILED", StepResult::Failed, undo),
            (
                "UPDATE_ROLLBACK_FAILED",
                StepResult::Failed,
                "then: aws cloudformation continue-update-rollback --stack-name s ",
            ),
            ("IMPORT_ROLLBACK_FAILED", StepResult::Failed, "aws cloudformation describe-stack-events --stack-name s "),
            ("REVIEW_IN_PROGRESS", StepResult::Failed, "`sam deploy` again"),
            ("DELETE_FAILED", StepResult::Failed, "deploy it again: aws cloudformation delete-stack --stack-name s "),
            ("DELETE_COMPLETE", StepResult::Failed, "deploy it again: aws cloudformation delete-stack --stack-name s "),
            ("UPDATE_ROLLBACK_IN_PROGRESS", StepResult::Failed, "wait until `sam deploy` has ended"),
        ] {
            let found = super::status("s", status, "us-east-1", "");
            assert_eq!(found.result, result, "{status}");
            assert!(found.text.contains(status), "{found:?}");
            let found = found.advice.unwrap_or_default();
            assert!(found.contains(advice) && found.is_empty() == advice.is_empty(), "{status}: {found}");
        }
    }

    #[test]
    fn parameter_that_the_functions_cannot_use_is_a_failure() {
        let found = |name: &str, value: &str| {
            let others = [("OutcomeProviders", "default"), ("IndexShards", "4"), ("InboxRetentionDays", "30")];
            let mut parameters: BTreeMap<String, String> = others.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
            parameters.insert(name.to_owned(), value.to_owned());
            readable(&parameters)
        };
        for (name, value) in [
            ("DialRates", "retell=1,twilio=0"),
            ("OutcomeProviders", "default,retel"),
            ("IndexShards", "0"),
            ("CallingWindow", "Europe/Nowhere 09:00-18:00"),
            ("CallRetentionDays", "30"),
        ] {
            let failed = found(name, value);
            assert!(failed.is_failed() && failed.text.contains(&format!("{name}={value}: ")), "{failed:?}");
        }
        for (name, value) in [("CallingWindow", "Europe/London 09:00-18:00"), ("CallRetentionDays", "31")] {
            assert_eq!(found(name, value).result, StepResult::Passed, "{name}={value}");
        }
    }

    /// SNS gives a new topic a policy for its own account alone. The first deployment replaces it.
    #[test]
    fn policy_of_the_first_deployment_lets_rules_publish_and_that_of_a_new_topic_does_not() {
        let page = include_str!("../../../docs/first-deployment.md");
        let command = page.split_once("--attribute-name Policy").unwrap().1;
        let documented = command.split('\'').nth(1).unwrap();
        let new = r#"{"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [{"Sid": "__default_statement_ID",
            "Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["SNS:Publish", "SNS:Subscribe"], "Resource": "arn",
            "Condition": {"StringEquals": {"AWS:SourceOwner": "123456789012"}}}]}"#;
        for (policy, result) in [(documented, StepResult::Passed), (new, StepResult::Note)] {
            let topic = Topic { confirmed: 1, pending: 0, policy: policy.to_owned() };
            let found = subscribed("arn", &topic);
            assert_eq!(found.result, result, "{found:?}");
        }
    }

    #[test]
    fn too_few_dialers_for_the_rates_are_noted() {
        let found = |quota: u64, dialers: &str, rates: &str| {
            let limit = Concurrency { all: quota, unreserved: quota };
            let parameters = [("ConsumerMaxConcurrency", "2"), ("DialerMaxConcurrency", dialers)];
            let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            concurrency(limit, &parameters, &rates.parse().unwrap())
        };
        let kept = found(1_000, "2", "*=1");
        assert_eq!(kept.result, StepResult::Note);
        assert_eq!(
            kept.text,
            "DialerMaxConcurrency is 2, and the calls per second in DialRates need 25: each provider is asked to place 8 % of them"
        );
        assert_eq!(
            kept.advice.as_deref(),
            Some("deploy with DialerMaxConcurrency=25 or more, or name in DialRates only the providers that you use")
        );
        let small = found(20, "2", "*=1");
        assert_eq!(small.result, StepResult::Note);
        assert!(small.advice.is_some_and(|advice| advice.starts_with("name in DialRates only")));
        for (quota, dialers, rates) in
            [(1_000, "30", "*=1"), (1_000, "25", "*=1"), (10, "3", "retell=1"), (10, "2", "")]
        {
            assert_eq!(found(quota, dialers, rates).result, StepResult::Passed, "{quota} {dialers} {rates}");
        }
    }

    #[test]
    fn event_pollers_that_differ_from_the_parameter_are_noted() {
        let resource = Resource {
            logical_id: "ConsumerMapping".to_owned(),
            physical_id: "5b0e".to_owned(),
            kind: "AWS::Lambda::EventSourceMapping".to_owned(),
        };
        let found = |parameter: &str, pollers: u64| {
            let source = EventSource {
                state: "Enabled".to_owned(),
                provisioned_poller_config: Some(ProvisionedPollers { minimum_pollers: pollers }),
                ..EventSource::default()
            };
            let parameters = [("ConsumerPollers".to_owned(), parameter.to_owned())].into();
            event_source(&resource, &source, &parameters)
        };
        assert_eq!((found("0", 0), found("5", 5)), (None, None));
        let kept = found("0", 5).unwrap();
        assert_eq!(kept.result, StepResult::Note);
        assert_eq!(kept.text, "ConsumerMapping has 5 event pollers, and ConsumerPollers is 0");
        let command = "aws lambda update-event-source-mapping --uuid 5b0e --provisioned-poller-config";
        assert_eq!(kept.advice, Some(format!("a deployment does not change them: {command} '{{}}'")));
        assert!(found("5", 0).unwrap().advice.unwrap().ends_with("MinimumPollers=5,MaximumPollers=5"));
        let none = EventSource { state: "Enabled".to_owned(), ..EventSource::default() };
        assert_eq!(event_source(&resource, &none, &BTreeMap::new()), None);
    }

    #[test]
    fn pollers_replace_the_concurrency_of_the_consumer() {
        let wanted = |pollers: &str| {
            let parameters =
                [("ConsumerMaxConcurrency", "50"), ("DialerMaxConcurrency", "20"), ("ConsumerPollers", pollers)];
            invocations(&parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
        };
        let expected = |consumers| Invocations { consumers, dialers: 20 };
        assert_eq!((wanted("0"), wanted("3")), (expected(50), expected(30)));
    }
}
