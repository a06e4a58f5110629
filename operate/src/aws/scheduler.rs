//! EventBridge Scheduler: the state of a schedule.

use serde_json::Value;

use super::{AwsServices, Service};
use crate::error::Error;

impl AwsServices {
    /// Returns the state of a schedule of the default group: `ENABLED` or `DISABLED`.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`], [`Error::Unreadable`].
    pub(crate) async fn schedule_state(&self, name: &str) -> Result<String, Error> {
        let answer = self.get(Service::Scheduler, "GetSchedule", &format!("/schedules/{name}")).await?;
        let state = answer.get("State").and_then(Value::as_str);
        state.map(str::to_owned).ok_or(Error::Unreadable { service: Service::Scheduler.name() })
    }
}
