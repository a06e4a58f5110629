//! EventBridge: the rules of a bus, a rule for a while, and an event to try it with.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{AwsServices, Service};
use crate::error::Error;

/// Prefix of the operations in the JSON protocol.
const TARGET: &str = "AWSEvents";
/// Code of the refusal to change a rule that does not exist.
const NOT_FOUND: &str = "ResourceNotFoundException";
/// Id of the only target of a rule.
const TARGET_ID: &str = "queue";

/// Rule of a bus.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Rule {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) state: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rules {
    #[serde(default)]
    rules: Vec<Rule>,
    next_token: Option<String>,
}

impl AwsServices {
    /// Returns the rules of a bus.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`], [`Error::Unreadable`].
    pub(crate) async fn rules(&self, bus: &str) -> Result<Vec<Rule>, Error> {
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut body = json!({"EventBusName": bus});
            if let (Some(token), Some(body)) = (next, body.as_object_mut()) {
                body.insert("NextToken".to_owned(), token.into());
            }
            let page = self.json(Service::EventBridge, TARGET, "ListRules", &body).await?;
            let page: Rules =
                serde_json::from_value(page).map_err(|_| Error::Unreadable { service: Service::EventBridge.name() })?;
            all.extend(page.rules);
            next = page.next_token.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(all);
            }
        }
    }

    /// Makes a rule without a target, and returns its ARN.
    ///
    /// # Errors
    /// The same as [`AwsServices::rules`].
    pub(crate) async fn put_rule(&self, bus: &str, name: &str, pattern: &Value) -> Result<String, Error> {
        let body = json!({
            "EventBusName": bus, "Name": name, "EventPattern": pattern.to_string(), "State": "ENABLED",
            "Description": "Made by `switchhook check`, which removes it",
        });
        let answer = self.json(Service::EventBridge, TARGET, "PutRule", &body).await?;
        let arn = answer.get("RuleArn").and_then(Value::as_str);
        arn.map(str::to_owned).ok_or(Error::Unreadable { service: Service::EventBridge.name() })
    }

    /// Lets a rule send its events to a queue.
    ///
    /// # Errors
    /// The same as [`AwsServices::rules`].
    pub(crate) async fn put_target(&self, bus: &str, rule: &str, queue_arn: &str) -> Result<(), Error> {
        let body = json!({"EventBusName": bus, "Rule": rule, "Targets": [{"Id": TARGET_ID, "Arn": queue_arn}]});
        self.json(Service::EventBridge, TARGET, "PutTargets", &body).await.map(drop)
    }

    /// Deletes a rule and its target. Returns false if there is no such rule.
    ///
    /// # Errors
    /// The same as [`AwsServices::rules`].
    pub(crate) async fn delete_rule(&self, bus: &str, rule: &str) -> Result<bool, Error> {
        let targets = json!({"EventBusName": bus, "Rule": rule, "Ids": [TARGET_ID]});
        let removed = self.json(Service::EventBridge, TARGET, "RemoveTargets", &targets).await;
        match removed {
            Ok(_) => {}
            Err(Error::Refused { code, .. }) if code == NOT_FOUND => return Ok(false),
            Err(error) => return Err(error),
        }
        let rule = json!({"EventBusName": bus, "Name": rule});
        self.json(Service::EventBridge, TARGET, "DeleteRule", &rule).await.map(|_| true)
    }

    /// Puts one event on a bus.
    ///
    /// # Errors
    /// The same as [`AwsServices::rules`].
    pub(crate) async fn put_event(&self, bus: &str, source: &str, kind: &str, detail: &Value) -> Result<(), Error> {
        let entry = json!({"EventBusName": bus, "Source": source, "DetailType": kind, "Detail": detail.to_string()});
        let answer = self.json(Service::EventBridge, TARGET, "PutEvents", &json!({"Entries": [entry]})).await?;
        let entry = answer.pointer("/Entries/0").cloned().unwrap_or_default();
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if entry.get("ErrorCode").is_none_or(Value::is_null) {
            return Ok(());
        }
        let (code, message) = (text("ErrorCode"), text("ErrorMessage"));
        let (service, operation) = (Service::EventBridge.name(), "PutEvents".to_owned());
        Err(Error::Refused { service, operation, status: 200, code, message })
    }
}
