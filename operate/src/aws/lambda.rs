//! Lambda: invocation of a function by hand.

use std::time::Duration;

use serde_json::Value;

use super::{AwsServices, Service};
use crate::error::Error;

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
}
