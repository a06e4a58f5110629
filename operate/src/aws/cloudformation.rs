//! CloudFormation: the outputs and the parameters of a stack.

use std::collections::BTreeMap;

use super::{AwsServices, Service, xml};
use crate::error::Error;

/// Outputs and parameters of a stack, by their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackDescription {
    pub(crate) outputs: BTreeMap<String, String>,
    pub(crate) parameters: BTreeMap<String, String>,
}

impl AwsServices {
    /// Returns the outputs and the parameters of a stack.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such stack, [`Error::Web`].
    pub(crate) async fn describe_stack(&self, stack: &str) -> Result<StackDescription, Error> {
        let parameters = [("Action", "DescribeStacks"), ("Version", "2010-05-15"), ("StackName", stack)];
        Ok(description(&self.query(Service::CloudFormation, &parameters).await?))
    }
}

/// Reads the outputs and the parameters. A stack may have none.
fn description(body: &str) -> StackDescription {
    let pairs = |list, key, value| xml::pairs(body, list, key, value).unwrap_or_default().into_iter().collect();
    StackDescription {
        outputs: pairs("Outputs", "OutputKey", "OutputValue"),
        parameters: pairs("Parameters", "ParameterKey", "ParameterValue"),
    }
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
    fn outputs_and_parameters_are_read_by_key() {
        let StackDescription { outputs, parameters } = description(DESCRIBED);
        assert_eq!(parameters, BTreeMap::from([("LogLevel".to_owned(), "info".to_owned())]));
        assert_eq!(outputs.len(), 2);
        assert_eq!(outputs["ApiUrl"], "https://abc.execute-api.eu-west-1.amazonaws.com");
        assert_eq!(outputs["InboxTableName"], "switchhook-InboxTable-1");
        assert!(description("<html>").outputs.is_empty());
    }
}
