//! CloudFormation: the outputs of a stack.

use std::collections::BTreeMap;

use super::{AwsServices, Service, xml};
use crate::error::Error;

impl AwsServices {
    /// Returns the outputs of a stack.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such stack, [`Error::Web`].
    pub(crate) async fn outputs(&self, stack: &str) -> Result<BTreeMap<String, String>, Error> {
        let parameters = [("Action", "DescribeStacks"), ("Version", "2010-05-15"), ("StackName", stack)];
        Ok(outputs(&self.query(Service::CloudFormation, &parameters).await?))
    }
}

/// Reads the outputs. A stack without outputs has none.
fn outputs(body: &str) -> BTreeMap<String, String> {
    xml::pairs(body, "Outputs", "OutputKey", "OutputValue").unwrap_or_default().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Response of CloudFormation, shortened.
    const DESCRIBED: &str = r#"<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">
  <DescribeStacksResult>
    <Stacks>
      <member>
        <StackName>switchhook</StackName>
        <StackStatus>UPDATE_COMPLETE</StackStatus>
        <Outputs>
          <member>
            <Description>Base URL of the API</Description>
            <OutputKey>ApiUrl</OutputKey>
            <OutputValue>https://abc.execute-api.eu-west-1.amazonaws.com</OutputValue>
          </member>
          <member>
            <OutputKey>InboxTableName</OutputKey>
            <OutputValue>switchhook-InboxTable-1</OutputValue>
          </member>
        </Outputs>
        <Parameters><member><ParameterKey>LogLevel</ParameterKey><ParameterValue>info</ParameterValue></member></Parameters>
      </member>
    </Stacks>
  </DescribeStacksResult>
  <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
</DescribeStacksResponse>"#;

    #[test]
    fn outputs_are_read_by_key() {
        let outputs = outputs(DESCRIBED);
        assert_eq!(outputs.len(), 2);
        assert_eq!(outputs["ApiUrl"], "https://abc.execute-api.eu-west-1.amazonaws.com");
        assert_eq!(outputs["InboxTableName"], "switchhook-InboxTable-1");
        assert!(super::outputs("<html>").is_empty());
    }
}
