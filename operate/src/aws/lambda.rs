//! Lambda: invocation of a function by hand, and the states of functions and of their event sources.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{AwsServices, Service};
use crate::error::Error;

/// State of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FunctionState {
    /// For example `Active`, `Pending` or `Failed`.
    pub(crate) state: String,
    pub(crate) state_reason: String,
    /// `Successful`, `Failed` or `InProgress`.
    pub(crate) last_update: String,
    pub(crate) last_update_reason: String,
    /// Concurrency that is reserved for the function. 0 throttles every invocation.
    pub(crate) reserved: Option<u64>,
}

/// Concurrency that the account may use in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Concurrency {
    #[serde(rename = "ConcurrentExecutions")]
    pub(crate) all: u64,
    #[serde(rename = "UnreservedConcurrentExecutions")]
    pub(crate) unreserved: u64,
}

/// State of an event source mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct EventSource {
    /// For example `Enabled`, `Disabled` or `Creating`.
    pub(crate) state: String,
    pub(crate) state_transition_reason: Option<String>,
    /// For example `OK`, `No records processed` or `PROBLEM: Function call failed`.
    pub(crate) last_processing_result: Option<String>,
    pub(crate) provisioned_poller_config: Option<ProvisionedPollers>,
}

/// Event pollers that Lambda keeps ready for an event source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ProvisionedPollers {
    pub(crate) minimum_pollers: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Function {
    configuration: Configuration,
    concurrency: Option<Reserved>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Configuration {
    state: Option<String>,
    state_reason: Option<String>,
    last_update_status: Option<String>,
    last_update_status_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Reserved {
    reserved_concurrent_executions: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AccountSettings {
    account_limit: Concurrency,
}

impl AwsServices {
    /// Invokes a function, waits for its end and returns its result.
    ///
    /// # Errors
    /// [`Error::FunctionFailed`] if the function returned an error, [`Error::Refused`], [`Error::Web`].
    pub(crate) async fn invoke(&self, function: &str, payload: &Value, timeout: Duration) -> Result<Value, Error> {
        let path = format!("/2015-03-31/functions/{function}/invocations");
        let response = self.send(Service::Lambda, "Invoke", &path, &[], payload.to_string(), timeout).await?;
        let result: Value = serde_json::from_str(&response.body).unwrap_or_default();
        if !response.headers.contains_key("x-amz-function-error") {
            return Ok(result);
        }
        let message = result.get("errorMessage").and_then(Value::as_str).unwrap_or_default().to_owned();
        Err(Error::FunctionFailed { function: function.to_owned(), message })
    }

    /// Returns the state of a function.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`], [`Error::Unreadable`].
    pub(crate) async fn function_state(&self, function: &str) -> Result<FunctionState, Error> {
        let path = format!("/2015-03-31/functions/{function}");
        function_state(self.get(Service::Lambda, "GetFunction", &path).await?)
    }

    /// Returns the concurrency that the account may use.
    ///
    /// # Errors
    /// The same as [`AwsServices::function_state`].
    pub(crate) async fn concurrency(&self) -> Result<Concurrency, Error> {
        let answer = self.get(Service::Lambda, "GetAccountSettings", "/2016-08-19/account-settings").await?;
        parse(answer).map(|settings: AccountSettings| settings.account_limit)
    }

    /// Returns the state of an event source mapping.
    ///
    /// # Errors
    /// The same as [`AwsServices::function_state`].
    pub(crate) async fn event_source(&self, uuid: &str) -> Result<EventSource, Error> {
        let path = format!("/2015-03-31/event-source-mappings/{uuid}");
        parse(self.get(Service::Lambda, "GetEventSourceMapping", &path).await?)
    }
}

fn function_state(answer: Value) -> Result<FunctionState, Error> {
    let Function { configuration, concurrency } = parse(answer)?;
    let Configuration { state, state_reason, last_update_status, last_update_status_reason } = configuration;
    Ok(FunctionState {
        state: state.unwrap_or_default(),
        state_reason: state_reason.unwrap_or_default(),
        last_update: last_update_status.unwrap_or_default(),
        last_update_reason: last_update_status_reason.unwrap_or_default(),
        reserved: concurrency.and_then(|concurrency| concurrency.reserved_concurrent_executions),
    })
}

fn parse<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, Error> {
    serde_json::from_value(answer).map_err(|_| Error::Unreadable { service: Service::Lambda.name() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn state_of_a_function_has_its_reasons_and_its_reservation() {
        let answer = json!({
            "Configuration": {"FunctionName": "f", "State": "Failed", "StateReason": "no image", "LastUpdateStatus": "Successful"},
            "Code": {"Location": "https://example.com"}, "Concurrency": {"ReservedConcurrentExecutions": 0},
        });
        let expected = FunctionState {
            state: "Failed".to_owned(),
            state_reason: "no image".to_owned(),
            last_update: "Successful".to_owned(),
            last_update_reason: String::new(),
            reserved: Some(0),
        };
        assert_eq!(function_state(answer).unwrap(), expected);
        let unreserved = function_state(json!({"Configuration": {"State": "Active", "StateReason": null}})).unwrap();
        assert_eq!((unreserved.state.as_str(), unreserved.reserved), ("Active", None));
        assert!(function_state(json!({})).is_err());
    }

    #[test]
    fn event_source_may_have_no_result_yet() {
        let read = |answer| parse::<EventSource>(answer).unwrap();
        let source = read(json!({"UUID": "u", "State": "Enabled", "StateTransitionReason": "USER_INITIATED"}));
        assert_eq!((source.state.as_str(), source.last_processing_result), ("Enabled", None));
        let problem = read(json!({"State": "Enabled", "LastProcessingResult": "PROBLEM: Function call failed"}));
        assert_eq!(problem.last_processing_result.as_deref(), Some("PROBLEM: Function call failed"));
        let pollers =
            |config| read(json!({"State": "Enabled", "ProvisionedPollerConfig": config})).provisioned_poller_config;
        let provisioned = pollers(json!({"MinimumPollers": 5, "MaximumPollers": 5}));
        assert_eq!(provisioned, Some(ProvisionedPollers { minimum_pollers: 5 }));
        assert_eq!(pollers(json!({})), Some(ProvisionedPollers { minimum_pollers: 0 }));
    }
}
