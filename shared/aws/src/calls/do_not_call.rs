//! The do-not-call list: one item per blocked number. **Numbers are compared by their canonical form**, so another notation of
//! a blocked number is blocked too.

use aws_sdk_dynamodb::types::AttributeValue;
use switchhook_domain::{DO_NOT_CALL_PREFIX, PhoneNumber};

use super::table::Calls;
use crate::dynamodb::text;
use crate::error::Error;

impl Calls {
    /// True if the number may not be called.
    ///
    /// # Errors
    /// [`Error::ReadCall`].
    pub async fn is_on_do_not_call_list(&self, number: &PhoneNumber) -> Result<bool, Error> {
        let answer = self
            .client
            .get_item()
            .table_name(&self.table)
            .key("call_id", key(number))
            .consistent_read(true)
            .send()
            .await
            .map_err(|error| Error::ReadCall(Box::new(error)))?;
        Ok(answer.item.is_some())
    }

    /// Puts a number on the do-not-call list, or takes it off.
    ///
    /// # Errors
    /// [`Error::WriteCall`].
    pub async fn set_do_not_call(&self, number: &PhoneNumber, listed: bool) -> Result<(), Error> {
        let key = key(number);
        if listed {
            let request = self.client.put_item().table_name(&self.table).item("call_id", key);
            request.send().await.map_err(|error| Error::WriteCall(Box::new(error)))?;
        } else {
            let request = self.client.delete_item().table_name(&self.table).key("call_id", key);
            request.send().await.map_err(|error| Error::WriteCall(Box::new(error)))?;
        }
        Ok(())
    }
}

fn key(number: &PhoneNumber) -> AttributeValue {
    text(&format!("{DO_NOT_CALL_PREFIX}{}", number.canonical().as_str()))
}
