//! A running stack: its names, and the clients that reach it.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::Calls;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::queue::Queue;
use switchhook_aws::sdk;
use switchhook_domain::Timestamp;

use crate::aws::AwsServices;
use crate::error::Error;
use crate::web;

/// Retention of the items that operators write into the inbox table: as long as calls are kept by default.
const OPERATOR_RETENTION: Duration = Duration::from_secs(400 * 24 * 60 * 60);

/// Address of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// URL of a `switchhook dev`.
    Local { url: String },
    /// Name of a deployed CloudFormation stack. Without a region, the region of the operator's AWS configuration.
    Deployed { stack: String, region: Option<String> },
}

/// Names and addresses of one running stack: the outputs of a deployed stack, or what `switchhook dev` answers at
/// `GET /stack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackNames {
    /// Name of the stack.
    pub stack: String,
    pub region: String,
    /// Base URL of the API, without a slash at its end.
    pub api_url: String,
    pub inbox_table: String,
    pub calls_table: String,
    pub events_queue_url: String,
    pub events_dlq_url: String,
    pub dial_queue_url: String,
    pub due_queue_url: String,
    pub relay_failures_queue_url: String,
    pub event_bus: String,
    pub scheduler_function: String,
    pub reconciler_function: String,
    /// ARN of the secret with the providers' keys.
    pub providers_secret: String,
}

/// Clients of one running stack.
#[derive(Clone, Debug)]
pub struct Stack {
    pub names: StackNames,
    pub inbox: Inbox,
    pub calls: Calls,
    pub events_queue: Queue,
    pub dlq: Queue,
    pub dial_queue: Queue,
    pub due_queue: Queue,
    pub relay_failures_queue: Queue,
    pub bus: Bus,
    /// URL of the `switchhook dev`. `None` for a deployed stack.
    pub local: Option<String>,
    /// Further services of a deployed stack.
    pub(crate) services: Option<AwsServices>,
    clock: sdk::Clock,
}

impl Stack {
    /// Reads the names of the stack, and makes its clients.
    ///
    /// # Errors
    /// The stack does not answer, or something else answers.
    pub async fn connect(address: &Address) -> Result<Self, Error> {
        match address {
            Address::Local { url } => {
                let url = url.trim_end_matches('/');
                let names = StackNames::of_dev(url).await?;
                let aws = sdk::from_url(&format!("{url}/aws"), &names.region);
                Ok(Self::new(names, &aws, Some(url.to_owned())))
            }
            Address::Deployed { stack, region } => {
                let aws = sdk::from_profile_in(region.clone()).await;
                let services = AwsServices::new(&aws)?;
                let names = StackNames::from_outputs(stack, services.region(), &services.outputs(stack).await?)?;
                Ok(Self { services: Some(services), ..Self::new(names, &aws, None) })
            }
        }
    }

    /// Current time, by the clock of the SDK.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns who operates the stack: the ARN of the AWS credentials, or the user of this machine.
    ///
    /// # Errors
    /// STS did not answer.
    pub async fn caller(&self) -> Result<String, Error> {
        match &self.services {
            Some(services) => services.caller().await,
            None => Ok(std::env::var("USER").ok().filter(|user| !user.is_empty()).unwrap_or_else(|| "dev".to_owned())),
        }
    }

    fn new(names: StackNames, aws: &sdk::SdkConfig, local: Option<String>) -> Self {
        let dynamodb = sdk::dynamodb(aws);
        let sqs = sdk::sqs(aws);
        let queue = |url: &str| Queue::new(sqs.clone(), url.to_owned());
        Self {
            inbox: Inbox::new(dynamodb.clone(), names.inbox_table.clone(), OPERATOR_RETENTION),
            calls: Calls::new(dynamodb, names.calls_table.clone()),
            events_queue: queue(&names.events_queue_url),
            dlq: queue(&names.events_dlq_url),
            dial_queue: queue(&names.dial_queue_url),
            due_queue: queue(&names.due_queue_url),
            relay_failures_queue: queue(&names.relay_failures_queue_url),
            bus: Bus::new(sdk::eventbridge(aws), names.event_bus.clone()),
            local,
            services: None,
            clock: sdk::Clock::from_config(aws),
            names,
        }
    }
}

impl StackNames {
    /// Asks a `switchhook dev` for its names.
    ///
    /// # Errors
    /// [`Error::Web`], and [`Error::NotDev`] if something else answers at the URL.
    pub async fn of_dev(url: &str) -> Result<Self, Error> {
        web::base_url(url)?;
        let request = web::request(Method::GET, &format!("{}/stack", url.trim_end_matches('/')))?;
        let response = web::send_in_background(request, web::TIMEOUT).await?;
        let names = serde_json::from_str(&response.body).ok().filter(|_| response.status == 200);
        names.ok_or_else(|| Error::NotDev(url.to_owned()))
    }

    /// Reads the names from the outputs of a deployed stack.
    fn from_outputs(stack: &str, region: &str, outputs: &BTreeMap<String, String>) -> Result<Self, Error> {
        let mut missing = Vec::new();
        let mut output = |name: &'static str| {
            outputs.get(name).cloned().unwrap_or_else(|| {
                missing.push(name);
                String::new()
            })
        };
        let names = Self {
            stack: stack.to_owned(),
            region: region.to_owned(),
            api_url: output("ApiUrl"),
            inbox_table: output("InboxTableName"),
            calls_table: output("CallsTableName"),
            events_queue_url: output("EventsQueueUrl"),
            events_dlq_url: output("EventsDlqUrl"),
            dial_queue_url: output("DialQueueUrl"),
            due_queue_url: output("DueQueueUrl"),
            relay_failures_queue_url: output("RelayFailuresQueueUrl"),
            event_bus: output("EventBusName"),
            scheduler_function: output("SchedulerFunctionName"),
            reconciler_function: output("ReconcilerFunctionName"),
            providers_secret: output("SecretArn"),
        };
        if missing.is_empty() { Ok(names) } else { Err(Error::MissingOutputs { stack: stack.to_owned(), missing }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUTS: [&str; 12] = [
        "ApiUrl",
        "InboxTableName",
        "CallsTableName",
        "EventsQueueUrl",
        "EventsDlqUrl",
        "DialQueueUrl",
        "DueQueueUrl",
        "RelayFailuresQueueUrl",
        "EventBusName",
        "SchedulerFunctionName",
        "ReconcilerFunctionName",
        "SecretArn",
    ];

    #[test]
    fn outputs_name_the_stack_and_missing_ones_are_told_at_once() {
        let mut outputs: BTreeMap<String, String> = OUTPUTS.map(|name| (name.to_owned(), format!("the {name}"))).into();
        let names = StackNames::from_outputs("switchhook", "eu-west-1", &outputs).unwrap();
        assert_eq!(
            (names.inbox_table.as_str(), names.providers_secret.as_str()),
            ("the InboxTableName", "the SecretArn")
        );
        outputs.remove("ApiUrl");
        outputs.remove("SecretArn");
        let error = StackNames::from_outputs("switchhook", "eu-west-1", &outputs).unwrap_err().to_string();
        assert!(error.contains("the stack switchhook lack ApiUrl, SecretArn"), "{error}");
    }
}
