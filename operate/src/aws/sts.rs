//! AWS STS (Security Token Service): the user or role whose credentials the operator uses.

use super::{AwsServices, Service, xml};
use crate::error::Error;

impl AwsServices {
    /// Returns the ARN of the user or role whose credentials are used.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`], [`Error::Unreadable`].
    pub(crate) async fn caller(&self) -> Result<String, Error> {
        let parameters = [("Action", "GetCallerIdentity"), ("Version", "2011-06-15")];
        let body = self.query(Service::Sts, &parameters).await?;
        xml::first_text(&body, "Arn").ok_or(Error::Unreadable { service: Service::Sts.name() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_is_an_arn() {
        let body = r#"<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <GetCallerIdentityResult>
    <Arn>arn:aws:sts::123456789012:assumed-role/Operator/anna</Arn>
    <UserId>AROA:anna</UserId>
    <Account>123456789012</Account>
  </GetCallerIdentityResult>
</GetCallerIdentityResponse>"#;
        assert_eq!(
            xml::first_text(body, "Arn").as_deref(),
            Some("arn:aws:sts::123456789012:assumed-role/Operator/anna")
        );
    }
}
