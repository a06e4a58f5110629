//! Erasing the person from aliases.

use switchhook_domain::CallId;

use super::table::{Calls, version};
use crate::dynamodb::{ConditionalWrite, text};
use crate::error::Error;

impl Calls {
    /// Removes from an alias the numbers of the call that became the alias. Returns false if there is no alias under this id, or
    /// none that holds a number. The alias still leads to its call.
    ///
    /// # Errors
    /// [`Error::WriteCall`]. A repetition is safe.
    pub async fn erase_alias(&self, from: &CallId) -> Result<bool, Error> {
        let request = self
            .client
            .update_item()
            .table_name(&self.table)
            .key("call_id", text(from.as_str()))
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
