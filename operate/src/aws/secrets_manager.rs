//! Secrets Manager: the text of a secret, and since when it is stored.

use serde_json::{Value, json};
use switchhook_domain::Timestamp;

use super::{AwsServices, Service};
use crate::error::Error;

impl AwsServices {
    /// Returns the current text of a secret, and the time at which it was stored.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`], [`Error::Unreadable`].
    pub(crate) async fn secret(&self, id: &str) -> Result<(String, Option<Timestamp>), Error> {
        let body = json!({"SecretId": id});
        let answer = self.json(Service::SecretsManager, "secretsmanager", "GetSecretValue", &body).await?;
        let text = answer.get("SecretString").and_then(Value::as_str).unwrap_or_default().to_owned();
        let seconds = answer.get("CreatedDate").and_then(Value::as_f64);
        Ok((text, seconds.map(|seconds| Timestamp::from_millis((seconds * 1_000.0) as i64))))
    }
}
