//! Erasure of the personal data that an alias still holds.
//!
//! An alias leads from a provider's id of an attempt to a call. It may have been the row of a call before, and then still holds
//! the numbers of that call.

use switchhook_domain::CallId;

use super::table::{Calls, version};
use crate::dynamodb::{ConditionalWrite, text};
use crate::error::Error;

impl Calls {
    /// Removes the phone numbers from the alias with this id. Returns false if there is no such alias, or it holds no number. The
    /// alias still leads to its call.
    ///
    /// # Errors
    /// [`Error::WriteCall`]. A repetition is safe.
    pub async fn erase_alias(&self, alias_id: &CallId) -> Result<bool, Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("call_id", text(alias_id.as_str()))
            .condition_expression(
                "attribute_exists(alias_of) AND (attribute_exists(#from) OR attribute_exists(#to) OR attribute_exists(party))",
            )
            .update_expression("SET version = version + :one REMOVE #from, #to, party")
            .expression_attribute_names("#from", "from")
            .expression_attribute_names("#to", "to")
            .expression_attribute_values(":one", version(1));
        let write = ConditionalWrite::from_result(request.send().await).map_err(Error::WriteCall)?;
        Ok(write.is_applied())
    }
}
