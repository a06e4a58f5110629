//! SNS: the subscriptions and the policy of a topic.

use super::{AwsServices, Service, xml};
use crate::error::Error;

const VERSION: (&str, &str) = ("Version", "2010-03-31");
/// Text in the place of the ARN of a subscription that its receiver has not confirmed.
const PENDING: &str = "PendingConfirmation";

/// Topic that alarms notify.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topic {
    pub(crate) confirmed: usize,
    /// Subscriptions that their receivers have not confirmed.
    pub(crate) pending: usize,
    /// Policy, as JSON.
    pub(crate) policy: String,
}

impl AwsServices {
    /// Returns the number of subscriptions of a topic, of its first page, and the policy of the topic.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Web`].
    pub(crate) async fn topic(&self, arn: &str) -> Result<Topic, Error> {
        let parameters = |action| [("Action", action), VERSION, ("TopicArn", arn)];
        let listed = self.query(Service::Sns, &parameters("ListSubscriptionsByTopic")).await?;
        let attributes = self.query(Service::Sns, &parameters("GetTopicAttributes")).await?;
        Ok(topic(&listed, &attributes))
    }
}

fn topic(listed: &str, attributes: &str) -> Topic {
    let subscriptions = xml::members(listed, "Subscriptions", ["SubscriptionArn"]);
    let pending = subscriptions.iter().filter(|[arn]| arn == PENDING).count();
    let attributes = xml::pairs(attributes, "Attributes", "key", "value").unwrap_or_default();
    let policy = attributes.into_iter().find(|(name, _)| name == "Policy").map(|(_, policy)| policy);
    Topic { confirmed: subscriptions.len() - pending, pending, policy: policy.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_counted_by_their_confirmation() {
        let listed = r#"<ListSubscriptionsByTopicResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">
  <ListSubscriptionsByTopicResult><Subscriptions>
    <member><Protocol>email</Protocol><SubscriptionArn>PendingConfirmation</SubscriptionArn></member>
    <member><Protocol>sqs</Protocol><SubscriptionArn>arn:aws:sns:eu-west-1:123456789012:alarms:1</SubscriptionArn></member>
  </Subscriptions></ListSubscriptionsByTopicResult></ListSubscriptionsByTopicResponse>"#;
        let attributes = r#"<GetTopicAttributesResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">
  <GetTopicAttributesResult><Attributes>
    <entry><key>Owner</key><value>123456789012</value></entry>
    <entry><key>Policy</key><value>{"Statement":[]}</value></entry>
  </Attributes></GetTopicAttributesResult></GetTopicAttributesResponse>"#;
        let expected = Topic { confirmed: 1, pending: 1, policy: r#"{"Statement":[]}"#.to_owned() };
        assert_eq!(topic(listed, attributes), expected);
        let empty = "<ListSubscriptionsByTopicResponse><Subscriptions/></ListSubscriptionsByTopicResponse>";
        assert_eq!(topic(empty, "<GetTopicAttributesResponse/>"), Topic::default());
    }
}
