//! Smoke test of a stack: checks its parts, and walks the path of one signed webhook to its domain event.
//!
//! **A check leaves nothing behind.** The names of everything that it makes follow from its id: the call, the event, a rule and
//! a queue. So the clean-up can be repeated by the id alone, also after a check that was killed. Only counts in metrics and log
//! lines stay.
//!
//! A failed step has advice. Steps that only read go on after a failure, so that one run tells everything that is wrong; the
//! walk ends at its first failure.

mod advice;
mod deployment;
mod id;
mod key;
mod shards;
mod step;
mod subscription;
mod walk;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use switchhook_aws::sdk::{self, Patience};

use crate::aws::AwsServices;
use crate::error::Error;
use crate::stack::{Address, Stack};
use deployment::Deployment;
use step::Steps;
use walk::{Made, Walk};

pub use id::{CheckId, NotACheckId};
pub(crate) use key::{StoredKey, url_of_webhooks};
pub use step::{Finding, Step, StepResult};

/// Default time limit of each wait.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a check.
#[derive(Clone, Debug)]
pub struct Options {
    /// Base URL that providers post to, if it is not the output `ApiUrl`: a custom domain, or CloudFront.
    pub webhook_url: Option<String>,
    /// Time limit of each wait.
    pub timeout: Duration,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub check_id: String,
    /// True if the stack exists and could be read.
    pub reached: bool,
    /// True if no step failed and none was skipped.
    pub passed: bool,
    pub steps: Vec<Step>,
}

impl Report {
    fn new(id: &CheckId, reached: bool, steps: Steps<'_>) -> Self {
        let steps = steps.into_all();
        let is_right = |step: &Step| match step.finding.result {
            StepResult::Passed | StepResult::Note => true,
            StepResult::Failed | StepResult::Skipped => false,
        };
        Self { check_id: id.to_string(), reached, passed: reached && steps.iter().all(is_right), steps }
    }
}

/// Stack that a check has reached.
enum Reached {
    Stack(Box<Stack>),
    /// The stack exists, and cannot be used.
    Unusable,
    Nothing,
}

/// Checks a stack. Calls the listener with each step. If `stopped` completes, the check goes on with its clean-up.
///
/// # Errors
/// [`Error::Aws`] if the system returned no random bytes. Everything else is a step that failed.
pub async fn check(
    address: &Address,
    options: &Options,
    stopped: impl Future<Output = ()>,
    listener: &mut (dyn FnMut(&Step) + Send),
) -> Result<Report, Error> {
    let id = CheckId::new()?;
    let mut steps = Steps::new(listener);
    let mut parameters = None;
    let stack = match connect(address, &mut steps, &mut parameters).await {
        Reached::Stack(stack) => stack,
        Reached::Unusable => return Ok(Report::new(&id, true, steps)),
        Reached::Nothing => return Ok(Report::new(&id, false, steps)),
    };
    let mut made = Made::default();
    let is_stopped = {
        let walk = async {
            if let (Some(services), Some(parameters)) = (&stack.services, &parameters) {
                deployment::check(&stack, services, parameters, &mut steps).await;
            }
            let webhook_url = options.webhook_url.as_deref();
            let walk = Walk { stack: &stack, id: &id, webhook_url, timeout: options.timeout };
            walk.run(&mut made, &mut steps).await;
        };
        tokio::select! {
            () = walk => false,
            () = stopped => true,
        }
    };
    let why = if is_stopped { "the check was stopped" } else { "an earlier step failed" };
    let all: &[&str] = if stack.local.is_some() { &walk::LOCAL } else { &walk::DEPLOYED };
    steps.skip_missing(all, why);
    steps.add("clean-up", remove(&stack, &id, made).await);
    Ok(Report::new(&id, true, steps))
}

/// Removes everything that a check has made, for a check that was killed or whose event was folded only after its end.
///
/// # Errors
/// The stack could not be reached.
pub async fn clean_up(
    address: &Address,
    id: &CheckId,
    listener: &mut (dyn FnMut(&Step) + Send),
) -> Result<Report, Error> {
    let stack = Stack::connect(address, Patience::Short).await?;
    let mut steps = Steps::new(listener);
    let everything = Made { subscription: stack.services.is_some(), event: true, waits: false };
    steps.add("clean-up", remove(&stack, id, everything).await);
    Ok(Report::new(id, true, steps))
}

/// Connects to the stack. Puts the parameters of a deployed stack into `parameters`.
async fn connect(
    address: &Address,
    steps: &mut Steps<'_>,
    parameters: &mut Option<BTreeMap<String, String>>,
) -> Reached {
    let (name, region) = match address {
        Address::Local { url } => {
            return match Stack::connect(address, Patience::Short).await {
                Ok(stack) if stack.is_frozen() => {
                    let text = format!("the local stack at {url} is frozen, so nothing in it can be changed");
                    let advice = "start `switchhook dev --data DIR` without --freeze, and run the check again";
                    steps.add("stack", Finding::failed(text, advice));
                    Reached::Unusable
                }
                Ok(stack) => {
                    steps.add("stack", Finding::passed(format!("a local stack at {url}")));
                    Reached::Stack(Box::new(stack))
                }
                Err(error) => {
                    steps.add("stack", advice::failed(&error));
                    Reached::Nothing
                }
            };
        }
        Address::Deployed { stack, region } => (stack, region),
    };
    let services = match AwsServices::new(&sdk::from_profile(region.clone(), Patience::Short).await) {
        Ok(services) => services,
        Err(error) => {
            steps.add("credentials", advice::failed(&error));
            return Reached::Nothing;
        }
    };
    let caller = services.caller().await;
    let found = match &caller {
        Ok(arn) => Finding::passed(format!("{arn} in {}", services.region())),
        Err(error) => advice::failed(error),
    };
    if !steps.add("credentials", found) {
        return Reached::Nothing;
    }
    let described = match services.describe_stack(name).await {
        Ok(described) => described,
        Err(error) => {
            steps.add("stack", missing(name, services.region(), &error));
            return Reached::Nothing;
        }
    };
    *parameters = Some(described.parameters.clone());
    match (Deployment { services, name: name.clone(), described }).connect(steps).await {
        Some(stack) => Reached::Stack(Box::new(stack)),
        None => Reached::Unusable,
    }
}

/// Describes the reason why CloudFormation did not describe the stack.
fn missing(name: &str, region: &str, error: &Error) -> Finding {
    let is_unknown = matches!(error, Error::Refused { code, message, .. }
        if code == "ValidationError" && message.contains("does not exist"));
    if !is_unknown {
        return advice::failed(error);
    }
    Finding::failed(
        format!("there is no stack {name} in {region}"),
        format!(
            "is it in another region (--region) or account (AWS_PROFILE)? aws cloudformation list-stacks --region {region}; if \
             it was never deployed: docs/first-deployment.md"
        ),
    )
}

/// Removes what a check has made. A repetition is safe.
async fn remove(stack: &Stack, id: &CheckId, made: Made) -> Finding {
    let again = format!("switchhook check --clean-up {id} {}", stack.options());
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    if let (true, Some(services)) = (made.subscription, &stack.services) {
        let name = id.subscription();
        let rule = services.delete_rule(&stack.names.event_bus, &name).await;
        let queue = services.delete_queue(&name).await;
        for (what, result) in [("the rule", rule), ("the queue", queue)] {
            match result {
                Ok(true) => removed.push(what),
                Ok(false) => {}
                Err(error) => failed.push(format!("{what}: {}", error.with_causes())),
            }
        }
    }
    // An event or a call that cannot be read is there too.
    let has_event = made.event && !matches!(stack.inbox.get(&id.event_id()).await, Ok(None));
    if made.waits && has_event {
        return Finding::note(
            format!("kept the event {}, because it may still be folded", id.event_id()),
            format!("when the stack works, remove the event and its call: {again}"),
        );
    }
    if made.event {
        let has_call = !matches!(stack.calls.get_call(&id.call_id()).await, Ok(None));
        // The sweep would queue an event again that its call lacks.
        let removed_all = async {
            stack.inbox.remove(&id.event_id()).await?;
            stack.inbox.remove_unfolded(&id.call_id()).await?;
            stack.calls.remove(&id.call_id()).await
        };
        let call = removed_all.await;
        match call {
            Ok(()) if has_event || has_call => removed.extend(["the event", "the call"]),
            Ok(()) => {}
            Err(error) => failed.push(format!("the event and the call: {}", error.with_causes())),
        }
    }
    match (failed.is_empty(), removed.is_empty()) {
        (false, _) => Finding::failed(format!("could not remove {}", failed.join("; ")), format!("try again: {again}")),
        (true, true) => Finding::passed("found nothing to remove"),
        (true, false) => Finding::passed(format!("removed {}", removed.join(", "))),
    }
}
