//! CloudFormation: a stack with its outputs and parameters, its resources, and what went wrong with it.

use std::collections::BTreeMap;

use super::{AwsServices, Service, xml};
use crate::error::Error;

const VERSION: (&str, &str) = ("Version", "2010-05-15");
/// Pages of events that are searched for a failure. A page has 100 events.
const EVENT_PAGES_MAX: usize = 10;
/// Beginnings of the reasons of resources that failed only because another one did.
const CANCELLED: [&str; 2] = ["Resource creation cancelled", "Resource update cancelled"];

/// Status of a stack, and its outputs and parameters by their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackDescription {
    /// For example `CREATE_COMPLETE` or `ROLLBACK_COMPLETE`.
    pub(crate) status: String,
    pub(crate) outputs: BTreeMap<String, String>,
    pub(crate) parameters: BTreeMap<String, String>,
}

/// Resource of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Name in the template, for example `IngressFunction`.
    pub(crate) logical_id: String,
    pub(crate) physical_id: String,
    /// For example `AWS::Lambda::Function`.
    pub(crate) kind: String,
}

impl AwsServices {
    /// Returns the status, the outputs and the parameters of a stack.
    ///
    /// # Errors
    /// [`Error::Refused`] if there is no such stack, [`Error::Web`].
    pub(crate) async fn describe_stack(&self, stack: &str) -> Result<StackDescription, Error> {
        let parameters = [("Action", "DescribeStacks"), VERSION, ("StackName", stack)];
        Ok(description(&self.query(Service::CloudFormation, &parameters).await?))
    }

    /// Returns the resources of a stack.
    ///
    /// # Errors
    /// The same as [`AwsServices::describe_stack`].
    pub(crate) async fn stack_resources(&self, stack: &str) -> Result<Vec<Resource>, Error> {
        let mut all = Vec::new();
        let mut next = None;
        loop {
            let page = self.stack_page("ListStackResources", stack, next.as_deref()).await?;
            all.extend(resources(&page));
            next = next_token(&page);
            if next.is_none() {
                return Ok(all);
            }
        }
    }

    /// Returns the first failure of the latest creation, update or deletion of a stack: the resource and the reason. `None` if
    /// there was none.
    ///
    /// # Errors
    /// The same as [`AwsServices::describe_stack`].
    pub(crate) async fn first_failure(&self, stack: &str) -> Result<Option<(String, String)>, Error> {
        let (mut first, mut next) = (None, None);
        for _ in 0..EVENT_PAGES_MAX {
            let page = self.stack_page("DescribeStackEvents", stack, next.as_deref()).await?;
            let (failure, is_start) = earliest_failure(&page);
            first = failure.or(first);
            next = next_token(&page).filter(|_| !is_start);
            if next.is_none() {
                break;
            }
        }
        Ok(first)
    }

    async fn stack_page(&self, operation: &str, stack: &str, next: Option<&str>) -> Result<String, Error> {
        let mut parameters = vec![("Action", operation), VERSION, ("StackName", stack)];
        parameters.extend(next.map(|token| ("NextToken", token)));
        self.query(Service::CloudFormation, &parameters).await
    }
}

fn next_token(body: &str) -> Option<String> {
    xml::first_text(body, "NextToken").filter(|token| !token.is_empty())
}

fn resources(body: &str) -> Vec<Resource> {
    let members = xml::members(
        body,
        "StackResourceSummaries",
        ["LogicalResourceId", "PhysicalResourceId", "ResourceType", "ResourceStatus"],
    );
    let all = members.into_iter().filter(|[_, _, _, status]| status != "DELETE_COMPLETE");
    all.map(|[logical_id, physical_id, kind, _]| Resource { logical_id, physical_id, kind }).collect()
}

/// Returns the earliest failure of the latest operation in a page of events, which lists the latest event first. The flag is
/// true if the page contains the start of that operation.
fn earliest_failure(body: &str) -> (Option<(String, String)>, bool) {
    let names = ["LogicalResourceId", "StackId", "PhysicalResourceId", "ResourceStatus", "ResourceStatusReason"];
    let mut earliest = None;
    for [logical_id, stack_id, physical_id, status, reason] in xml::members(body, "StackEvents", names) {
        if status.ends_with("_FAILED") && !CANCELLED.iter().any(|cancelled| reason.starts_with(cancelled)) {
            earliest = Some((logical_id, reason));
        // A nested stack is a stack too. Its rollback comes after the failure.
        } else if stack_id == physical_id
            && matches!(status.as_str(), "CREATE_IN_PROGRESS" | "UPDATE_IN_PROGRESS" | "DELETE_IN_PROGRESS")
        {
            return (earliest, true);
        }
    }
    (earliest, false)
}

/// Reads the outputs and the parameters. A stack may have none.
pub(crate) fn description(body: &str) -> StackDescription {
    let pairs = |list, key, value| xml::pairs(body, list, key, value).unwrap_or_default().into_iter().collect();
    StackDescription {
        status: xml::first_text(body, "StackStatus").unwrap_or_default(),
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
        <Parameters>
          <member><ParameterKey>Tracing</ParameterKey><ParameterValue>Active</ParameterValue></member>
          <member><ParameterKey>DialRates</ParameterKey><ParameterValue/></member>
          <member><ParameterKey>OutcomeProviders</ParameterKey><ParameterValue></ParameterValue></member>
        </Parameters>
      </member>
    </Stacks>
  </DescribeStacksResult>
  <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>
</DescribeStacksResponse>"#;

    #[test]
    fn outputs_and_parameters_are_read_by_key() {
        let StackDescription { status, outputs, parameters } = description(DESCRIBED);
        assert_eq!(status, "UPDATE_COMPLETE");
        let expected = [("Tracing", "Active"), ("DialRates", ""), ("OutcomeProviders", "")];
        assert_eq!(parameters, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert_eq!(outputs.len(), 2);
        assert_eq!(outputs["ApiUrl"], "https://abc.execute-api.eu-west-1.amazonaws.com");
        assert_eq!(outputs["InboxTableName"], "switchhook-InboxTable-1");
        assert!(description("<html>").outputs.is_empty());
    }
    /// Events of a creation that was rolled back after an earlier, failed creation. The latest comes first.
    const EVENTS: &str = r#"<DescribeStackEventsResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/">
  <DescribeStackEventsResult><StackEvents>
    <member><StackId>s1</StackId><LogicalResourceId>switchhook</LogicalResourceId><PhysicalResourceId>s1</PhysicalResourceId>
      <ResourceStatus>ROLLBACK_COMPLETE</ResourceStatus></member>
    <member><StackId>s1</StackId><LogicalResourceId>ForwardStack</LogicalResourceId><PhysicalResourceId>s2</PhysicalResourceId>
      <ResourceStatus>DELETE_IN_PROGRESS</ResourceStatus></member>
    <member><StackId>s1</StackId><LogicalResourceId>ApiFunction</LogicalResourceId><PhysicalResourceId/>
      <ResourceStatus>CREATE_FAILED</ResourceStatus><ResourceStatusReason>Resource creation cancelled</ResourceStatusReason></member>
    <member><StackId>s1</StackId><LogicalResourceId>EventsQueue</LogicalResourceId><PhysicalResourceId/>
      <ResourceStatus>CREATE_FAILED</ResourceStatus><ResourceStatusReason>the queue exists</ResourceStatusReason></member>
    <member><StackId>s1</StackId><LogicalResourceId>switchhook</LogicalResourceId><PhysicalResourceId>s1</PhysicalResourceId>
      <ResourceStatus>CREATE_IN_PROGRESS</ResourceStatus></member>
    <member><StackId>s1</StackId><LogicalResourceId>EventBus</LogicalResourceId><PhysicalResourceId/>
      <ResourceStatus>CREATE_FAILED</ResourceStatus><ResourceStatusReason>an older failure</ResourceStatusReason></member>
  </StackEvents><NextToken>more</NextToken></DescribeStackEventsResult></DescribeStackEventsResponse>"#;

    #[test]
    fn first_failure_of_the_latest_operation_is_found() {
        let failure = Some(("EventsQueue".to_owned(), "the queue exists".to_owned()));
        assert_eq!(earliest_failure(EVENTS), (failure.clone(), true));
        let (page, _) = EVENTS.split_once("<member><StackId>s1</StackId><LogicalResourceId>switchhook</LogicalResourceId><PhysicalResourceId>s1</PhysicalResourceId>\n      <ResourceStatus>CREATE_IN_PROGRESS").unwrap();
        let page = format!("{page}</StackEvents></DescribeStackEventsResult></DescribeStackEventsResponse>");
        assert_eq!(earliest_failure(&page), (failure, false));
        assert_eq!(next_token(EVENTS).as_deref(), Some("more"));
    }

    #[test]
    fn resources_have_their_names_and_kinds() {
        let body = "<R><StackResourceSummaries><member><LogicalResourceId>ConsumerMapping</LogicalResourceId>\
                    <PhysicalResourceId>1234</PhysicalResourceId><ResourceType>AWS::Lambda::EventSourceMapping</ResourceType>\
                    </member></StackResourceSummaries></R>";
        let expected = Resource {
            logical_id: "ConsumerMapping".to_owned(),
            physical_id: "1234".to_owned(),
            kind: "AWS::Lambda::EventSourceMapping".to_owned(),
        };
        assert_eq!(resources(body), [expected]);
    }
}
