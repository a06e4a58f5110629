//! The health of providers: one row per provider, under a key of its own in the calls table.
//!
//! **Each change is one conditional write.** Schedulers book places in the dial rate, and dialers report the results of
//! dials. Whoever loses the race reads the row again. A writer whose answer was lost knows its own write by its random id. So no place is
//! booked twice and no failure counts twice, unless another writer has changed the row in between. The write that opens or closes a circuit also carries the domain
//! event: `outbox_start` is its sequence, and the relay publishes it as it does for calls.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use serde::{Deserialize, Serialize};
use switchhook_domain::{PROVIDER_HEALTH_PREFIX, Provider, ProviderAvailability, ProviderHealth, Timestamp};

use super::table::Calls;
use crate::dynamodb::{ConditionalWrite, Item, refuse_newer_schema, text};
use crate::error::Error;
use crate::random::RandomIds;

/// Schema version of a stored health.
const HEALTH_SCHEMA: u32 = 1;
/// Time for which a process relies on the health that it read. A dialer places a few calls in that time.
const HEALTH_AGE_MAX: Duration = Duration::from_secs(3);
/// Tries of a write that loses races. Many dialers may report a failure at the same moment, and many woken schedulers may book a place.
const RACES_MAX: u32 = 10;
/// Longest pause after the first lost race. It doubles four times. The pauses are random, so that the writers no longer read and write
/// in step: DynamoDB needs some ten milliseconds for both.
const PAUSE_MS: u64 = 10;

/// Stored health of a provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HealthRow {
    call_id: String,
    schema_version: u32,
    version: u64,
    /// Random id of the last write.
    #[serde(default)]
    write_id: String,
    /// Sequence of the domain event that the last write added. `None` if it added none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outbox_start: Option<u64>,
    health: ProviderHealth,
}

/// The providers' health as last read by this process.
#[derive(Debug, Default)]
pub struct HealthCache(Mutex<BTreeMap<Provider, (ProviderHealth, Timestamp)>>);

impl HealthCache {
    /// Returns the health if it was read less than `HEALTH_AGE_MAX` ago.
    #[must_use]
    pub fn get(&self, provider: Provider, now: Timestamp) -> Option<ProviderHealth> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (health, read_at) = cache.get(&provider)?;
        (now < read_at.plus(HEALTH_AGE_MAX)).then(|| health.clone())
    }

    /// Remembers the health that was read or written now.
    pub fn set(&self, health: ProviderHealth, now: Timestamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(health.provider, (health, now));
    }
}

impl HealthRow {
    /// True if this is the key of a provider's health.
    #[must_use]
    pub fn is_key(key: &str) -> bool {
        key.starts_with(PROVIDER_HEALTH_PREFIX)
    }

    /// Reads a row, from the table or from its stream.
    ///
    /// # Errors
    /// [`Error::NewerSchema`], [`Error::DecodeHealth`].
    pub fn parse(item: serde_dynamo::Item) -> Result<Self, Error> {
        refuse_newer_schema(&item, HEALTH_SCHEMA)?;
        // The message of the cause may quote a value of the row, such as the id of a call.
        serde_dynamo::from_item(item).map_err(|_| Error::DecodeHealth("an attribute"))
    }

    /// Returns the domain event that the last write added.
    #[must_use]
    pub fn domain_event(&self) -> Option<ProviderAvailability> {
        self.outbox_start.and_then(|_| self.health.domain_event())
    }
}

impl Calls {
    /// Reads the health of a provider by one strongly consistent read.
    ///
    /// # Errors
    /// [`Error::ReadHealth`], [`Error::DecodeHealth`], [`Error::NewerSchema`].
    pub async fn provider_health(&self, provider: Provider) -> Result<ProviderHealth, Error> {
        Ok(self.read_health(provider, true).await?.health)
    }

    /// Reads the health of a provider by one eventually consistent read. It costs half as much, and may miss writes of
    /// the last few hundred milliseconds.
    ///
    /// # Errors
    /// The same as [`Calls::provider_health`].
    pub async fn provider_health_eventual(&self, provider: Provider) -> Result<ProviderHealth, Error> {
        Ok(self.read_health(provider, false).await?.health)
    }

    /// Changes the health of a provider. `change` returns the next health and a result, or `None` if nothing changes:
    /// then nothing is written, and this returns `None`. It is called again if another writer came first.
    ///
    /// # Errors
    /// The same as [`Calls::provider_health`], and [`Error::WriteHealth`], [`Error::Contended`], [`Error::Random`].
    pub async fn change_provider_health<T>(
        &self,
        provider: Provider,
        change: impl Fn(&ProviderHealth) -> Option<(ProviderHealth, T)>,
    ) -> Result<Option<T>, Error> {
        for race in 0..RACES_MAX {
            let read = self.read_health(provider, true).await?;
            let Some((next, result)) = change(&read.health) else { return Ok(None) };
            if self.write_health(&read, next).await? {
                return Ok(Some(result));
            }
            tokio::time::sleep(Duration::from_millis(fastrand::u64(1..=(PAUSE_MS << race.min(4))))).await;
        }
        Err(Error::Contended(RACES_MAX))
    }

    async fn read_health(&self, provider: Provider, consistent: bool) -> Result<HealthRow, Error> {
        let key = format!("{PROVIDER_HEALTH_PREFIX}{provider}");
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("call_id", text(&key))
            .consistent_read(consistent)
            .send()
            .await
            .map_err(|error| Error::ReadHealth(Box::new(error)))?;
        match answer.item {
            Some(item) => HealthRow::parse(item.into()),
            None => Ok(HealthRow {
                call_id: key,
                schema_version: HEALTH_SCHEMA,
                version: 0,
                write_id: String::new(),
                outbox_start: None,
                health: ProviderHealth::new(provider),
            }),
        }
    }

    /// Writes the next health, if the row still has the version that was read. Returns false if another writer came first.
    async fn write_health(&self, read: &HealthRow, next: ProviderHealth) -> Result<bool, Error> {
        let outbox_start = (next.sequence != read.health.sequence).then_some(next.sequence);
        let write_id = RandomIds::from_system().hex::<8>()?;
        let row = HealthRow {
            call_id: read.call_id.clone(),
            schema_version: HEALTH_SCHEMA,
            version: read.version + 1,
            write_id: write_id.clone(),
            outbox_start,
            health: next,
        };
        let item: Item = serde_dynamo::to_item(row).map_err(|error| Error::WriteHealth(Box::new(error)))?;
        let request = self
            .put(item, read.version)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match ConditionalWrite::from_result(request.send().await).map_err(Error::WriteHealth)? {
            ConditionalWrite::Applied(_) => Ok(true),
            // The SDK repeats a write whose answer is lost. The row refuses the repetition, and has the id of the first one.
            ConditionalWrite::Refused(stored) => {
                Ok(stored.is_some_and(|stored| stored.get("write_id") == Some(&text(&write_id))))
            }
        }
    }
}
