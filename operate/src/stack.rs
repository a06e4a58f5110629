//! A running stack: its names, and the clients that reach it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use switchhook_aws::bus::Bus;
use switchhook_aws::calls::Calls;
use switchhook_aws::config::whole_number;
use switchhook_aws::inbox::Inbox;
use switchhook_aws::ledger::Ledger;
use switchhook_aws::queue::Queue;
use switchhook_aws::random::RandomIds;
use switchhook_aws::sdk::{self, Patience};
use switchhook_aws::secret::Secrets;
use switchhook_aws::shards::Shards;
use switchhook_domain::{Policy, Provider, ProviderSet, Timestamp};
use switchhook_providers::DialRates;

use crate::aws::{AwsServices, StackDescription};
use crate::entries::StoredEntries;
use crate::error::Error;
use crate::web;

const DAY_SECONDS: u64 = 24 * 60 * 60;
/// Retention of runs and audit records: as long as calls are kept by default.
pub(crate) const OPERATOR_RETENTION: Duration = Duration::from_secs(400 * DAY_SECONDS);

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// ARN of the secret with the keys that verify webhooks.
    pub webhook_keys_secret: String,
    /// ARN of the secret with the accounts that place calls.
    pub dial_accounts_secret: String,
    pub settings: StackSettings,
}

/// Settings of a stack that decide how its calls are folded, and for how long its data is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackSettings {
    pub inactivity_timeout_seconds: u64,
    /// Providers that report what the person said after the call has ended.
    pub outcome_providers: Vec<Provider>,
    pub inbox_retention_days: u64,
    pub call_retention_days: u64,
    /// True if a number is blocked when its person asks not to be called again.
    pub block_on_request: bool,
    /// Rates of the providers that calls are placed with, for example `retell=1,twilio=0.5`.
    pub dial_rates: String,
    /// True if the index of numbers is written.
    pub index_numbers: bool,
    /// Number of shards of the indexes, for example `4`. See [`Shards`].
    pub index_shards: String,
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
    pub secrets: Secrets,
    /// URL of the `switchhook dev`. `None` for a deployed stack.
    pub local: Option<String>,
    /// Requests that were sent with these clients.
    pub ledger: Ledger,
    pub(crate) entries: StoredEntries,
    /// Client for whole tables.
    pub(crate) dynamodb: switchhook_aws::dynamodb::Client,
    /// Further services of a deployed stack.
    pub(crate) services: Option<AwsServices>,
    /// Source of the ids of plans and runs.
    pub random_ids: RandomIds,
    clock: sdk::Clock,
    time: Arc<Mutex<StackTime>>,
}

/// Clock of a stack, compared with the clock of this machine.
#[derive(Clone, Copy, Debug)]
enum StackTime {
    /// Milliseconds by which a `switchhook dev` is ahead, because its user has skipped time. 0 for a deployed stack.
    Ahead(i64),
    /// The clock of a frozen `switchhook dev` stands still.
    Stopped(Timestamp),
}

impl Stack {
    /// Reads the names of the stack, and makes its clients. `patience` is for the requests to a deployed stack.
    ///
    /// # Errors
    /// The stack does not answer, or something else answers.
    pub async fn connect(address: &Address, patience: Patience) -> Result<Self, Error> {
        match address {
            Address::Local { url } => {
                let url = url.trim_end_matches('/');
                let names = StackNames::of_dev(url).await?;
                let aws = sdk::from_url(&format!("{url}/aws"), &names.region);
                let stack = Self::new(names, &aws, Some(url.to_owned()));
                stack.read_clock().await;
                Ok(stack)
            }
            Address::Deployed { stack, region } => {
                let services = AwsServices::new(&sdk::from_profile(region.clone(), patience).await)?;
                let described = services.describe_stack(stack).await?;
                Self::of_deployed(stack, &described, services)
            }
        }
    }

    /// Returns the options with which a command of the tool names this stack.
    #[must_use]
    pub fn options(&self) -> String {
        match &self.local {
            Some(url) => format!("--to {url}"),
            None => format!("--stack {} --region {}", self.names.stack, self.names.region),
        }
    }

    /// Makes the clients of a deployed stack.
    ///
    /// # Errors
    /// [`Error::MissingOutputs`].
    pub(crate) fn of_deployed(stack: &str, described: &StackDescription, services: AwsServices) -> Result<Self, Error> {
        let mut names = StackNames::of_deployed(stack, services.region(), described)?;
        if let Some(endpoint) = services.config().endpoint_url() {
            names.api_url = emulated(&names.api_url, endpoint);
        }
        let stack = Self::recorded(names, services.config(), None, services.ledger.clone());
        Ok(Self { services: Some(services), ..stack })
    }

    /// Current time of the stack, by the clock of the SDK. Time that the user of a `switchhook dev` has skipped counts from the next
    /// [`Self::read_clock`].
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match *self.time.lock().unwrap_or_else(PoisonError::into_inner) {
            StackTime::Ahead(ms) => ahead_of(self.clock.now(), ms),
            StackTime::Stopped(at) => at,
        }
    }

    /// Asks a `switchhook dev` for its time, and returns it. The time of a deployed stack follows from the last response of AWS,
    /// whatever the clock of this machine shows.
    pub async fn read_clock(&self) -> Timestamp {
        let Some(url) = &self.local else { return ahead_of(self.clock.now(), self.ledger.ahead_ms()) };
        if let Some(DevTime { now, is_stopped }) = time_of_dev(url).await {
            let ahead_ms = now.millis_since(self.clock.now());
            let time = if is_stopped { StackTime::Stopped(now) } else { StackTime::Ahead(ahead_ms) };
            *self.time.lock().unwrap_or_else(PoisonError::into_inner) = time;
        }
        self.now()
    }

    /// True for a `switchhook dev --freeze`, which refuses every change.
    #[must_use]
    pub(crate) fn is_frozen(&self) -> bool {
        matches!(*self.time.lock().unwrap_or_else(PoisonError::into_inner), StackTime::Stopped(_))
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

    /// Returns the limits by which the consumer of this stack folds calls.
    #[must_use]
    pub fn policy(&self) -> Policy {
        let StackSettings { inactivity_timeout_seconds, outcome_providers, .. } = &self.names.settings;
        Policy {
            inactivity_timeout: Duration::from_secs(*inactivity_timeout_seconds),
            outcome_providers: outcome_providers.iter().copied().collect(),
        }
    }

    /// Returns the rates of the providers that calls are placed with.
    #[must_use]
    pub fn dial_rates(&self) -> DialRates {
        // The template allows only texts that can be read.
        self.names.settings.dial_rates.parse().unwrap_or_default()
    }

    /// Returns the time for which the inbox keeps an event.
    #[must_use]
    pub const fn inbox_retention(&self) -> Duration {
        self.names.settings.inbox_retention()
    }

    /// Makes the clients of a stack with these names.
    #[must_use]
    pub fn new(names: StackNames, aws: &sdk::SdkConfig, local: Option<String>) -> Self {
        Self::recorded(names, aws, local, Ledger::default())
    }

    fn recorded(names: StackNames, aws: &sdk::SdkConfig, local: Option<String>, ledger: Ledger) -> Self {
        let aws = &ledger.watch(aws);
        let dynamodb = sdk::dynamodb(aws);
        let sqs = sdk::sqs(aws);
        let queue = |url: &str| Queue::new(sqs.clone(), url.to_owned());
        // The template allows only texts that can be read.
        let shards: Shards = names.settings.index_shards.parse().unwrap_or_default();
        Self {
            inbox: Inbox::new(dynamodb.clone(), names.inbox_table.clone(), names.settings.inbox_retention())
                .shards(shards.clone()),
            calls: Calls::new(dynamodb.clone(), names.calls_table.clone(), names.settings.call_retention())
                .index_numbers(names.settings.index_numbers)
                .shards(shards),
            events_queue: queue(&names.events_queue_url),
            dlq: queue(&names.events_dlq_url),
            dial_queue: queue(&names.dial_queue_url),
            due_queue: queue(&names.due_queue_url),
            relay_failures_queue: queue(&names.relay_failures_queue_url),
            bus: Bus::new(sdk::eventbridge(aws), names.event_bus.clone()),
            secrets: Secrets::new(aws),
            local,
            ledger,
            entries: StoredEntries::default(),
            dynamodb,
            services: None,
            random_ids: RandomIds::from_system(),
            clock: sdk::Clock::from_config(aws),
            time: Arc::new(Mutex::new(StackTime::Ahead(0))),
            names,
        }
    }
}

/// Returns the URL at which an emulator of AWS at `endpoint` serves an HTTP API. A URL with a domain of one's own stays.
fn emulated(api_url: &str, endpoint: &str) -> String {
    let id = api_url.strip_prefix("https://").and_then(|rest| rest.split_once(".execute-api."));
    match id {
        Some((id, _)) => format!("{}/_aws/execute-api/{id}/$default", endpoint.trim_end_matches('/')),
        None => api_url.to_owned(),
    }
}

const fn ahead_of(now: Timestamp, ms: i64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_add(ms))
}

/// Time of a `switchhook dev`.
#[derive(Clone, Copy, Debug)]
pub struct DevTime {
    pub now: Timestamp,
    /// True if the clock stands still, to look at a stack as it was.
    pub is_stopped: bool,
}

/// Returns the time of the `switchhook dev` at this URL, whose user may have skipped time. `None` if something else answers.
pub async fn time_of_dev(url: &str) -> Option<DevTime> {
    let uri = web::base_url(url).ok().filter(web::is_loopback)?;
    let request = web::request(Method::GET, &format!("http://{}/clock", uri.authority()?)).ok()?;
    let response = web::send_in_background(request, web::TIMEOUT).await.ok().filter(|answer| answer.status == 200)?;
    let clock: serde_json::Value = serde_json::from_str(&response.body).ok()?;
    let now = Timestamp::parse_rfc3339(clock.get("now")?.as_str()?)?;
    Some(DevTime { now, is_stopped: clock.get("is_stopped")?.as_bool()? })
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

    /// Reads the names from the outputs of a deployed stack, and the settings from its parameters.
    fn of_deployed(stack: &str, region: &str, described: &StackDescription) -> Result<Self, Error> {
        let mut missing = Vec::new();
        let settings = StackSettings::from_parameters(&described.parameters, &mut missing);
        let mut output = |name: &'static str| {
            described.outputs.get(name).cloned().unwrap_or_else(|| {
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
            webhook_keys_secret: output("WebhookKeysSecretArn"),
            dial_accounts_secret: output("DialAccountsSecretArn"),
            settings,
        };
        if missing.is_empty() { Ok(names) } else { Err(Error::MissingOutputs { stack: stack.to_owned(), missing }) }
    }
}

impl StackSettings {
    const fn inbox_retention(&self) -> Duration {
        Duration::from_secs(self.inbox_retention_days * DAY_SECONDS)
    }

    const fn call_retention(&self) -> Duration {
        Duration::from_secs(self.call_retention_days * DAY_SECONDS)
    }

    /// Reads the settings from the parameters of a deployed stack. Adds the names of missing ones to `missing`.
    fn from_parameters(parameters: &BTreeMap<String, String>, missing: &mut Vec<&'static str>) -> Self {
        let mut parameter = |name: &'static str| {
            parameters.get(name).map_or_else(
                || {
                    missing.push(name);
                    ""
                },
                String::as_str,
            )
        };
        // The template allows only values that can be read.
        let number = |text: &str| whole_number(text).unwrap_or_default().into();
        Self {
            inactivity_timeout_seconds: number(parameter("InactivityTimeoutSeconds")),
            outcome_providers: parameter("OutcomeProviders")
                .parse::<ProviderSet>()
                .unwrap_or_default()
                .iter()
                .collect(),
            inbox_retention_days: number(parameter("InboxRetentionDays")),
            call_retention_days: number(parameter("CallRetentionDays")),
            block_on_request: parameter("BlockOnRequest") == "true",
            dial_rates: parameter("DialRates").to_owned(),
            index_numbers: parameter("IndexNumbers") == "true",
            index_shards: parameter("IndexShards").to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUTS: [&str; 13] = [
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
        "WebhookKeysSecretArn",
        "DialAccountsSecretArn",
    ];

    const PARAMETERS: [(&str, &str); 8] = [
        ("InactivityTimeoutSeconds", "900"),
        ("OutcomeProviders", "retell,generic"),
        ("InboxRetentionDays", "30.0"),
        ("CallRetentionDays", "400"),
        ("BlockOnRequest", "true"),
        ("DialRates", "retell=1"),
        ("IndexNumbers", "false"),
        ("IndexShards", "4"),
    ];

    #[test]
    fn api_of_an_emulator_is_at_its_endpoint() {
        let api = emulated("https://abc.execute-api.us-east-1.amazonaws.com", "http://127.0.0.1:4566/");
        assert_eq!(api, "http://127.0.0.1:4566/_aws/execute-api/abc/$default");
        assert_eq!(emulated("https://calls.example.com", "http://127.0.0.1:4566"), "https://calls.example.com");
    }

    #[test]
    fn outputs_name_the_stack_and_missing_ones_are_told_at_once() {
        let outputs: BTreeMap<String, String> = OUTPUTS.map(|name| (name.to_owned(), format!("the {name}"))).into();
        let parameters: BTreeMap<String, String> =
            PARAMETERS.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let mut described = StackDescription { status: "CREATE_COMPLETE".to_owned(), outputs, parameters };
        let names = StackNames::of_deployed("switchhook", "eu-west-1", &described).unwrap();
        let settings = StackSettings {
            inactivity_timeout_seconds: 900,
            outcome_providers: vec![Provider::Retell, Provider::Generic],
            inbox_retention_days: 30,
            call_retention_days: 400,
            block_on_request: true,
            dial_rates: "retell=1".to_owned(),
            index_numbers: false,
            index_shards: "4".to_owned(),
        };
        assert_eq!(names.settings, settings);
        assert_eq!(
            (names.webhook_keys_secret.as_str(), names.dial_accounts_secret.as_str()),
            ("the WebhookKeysSecretArn", "the DialAccountsSecretArn")
        );
        described.outputs.remove("ApiUrl");
        described.outputs.remove("DialAccountsSecretArn");
        described.parameters.remove("BlockOnRequest");
        let error = StackNames::of_deployed("switchhook", "eu-west-1", &described).unwrap_err().to_string();
        assert!(error.contains("BlockOnRequest, ApiUrl, DialAccountsSecretArn"), "{error}");
    }

    #[test]
    fn stack_that_places_no_calls_is_read() {
        let member = |kind: &str, key: &str, value: &str| match value {
            "" => format!("<member><{kind}Key>{key}</{kind}Key><{kind}Value/></member>"),
            value => format!("<member><{kind}Key>{key}</{kind}Key><{kind}Value>{value}</{kind}Value></member>"),
        };
        let value = |(key, value)| (key, if key == "DialRates" { "" } else { value });
        let parameters = PARAMETERS.map(value).map(|(key, value)| member("Parameter", key, value)).concat();
        let outputs = OUTPUTS.map(|name| member("Output", name, "an output")).concat();
        let xml = format!("<Stack><Outputs>{outputs}</Outputs><Parameters>{parameters}</Parameters></Stack>");
        let described = crate::aws::description(&xml);
        let names = StackNames::of_deployed("switchhook", "eu-west-1", &described).unwrap();
        assert_eq!(names.settings.dial_rates, "");
    }
}
