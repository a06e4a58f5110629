//! Webhooks of the playground: samples and the events of stories, signed and posted.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{Key, samples, sign, sign_as_configured};

use super::calls::SOON;
use super::{Done, LocalPlayground, PlaygroundError, Sending};

/// Key that no stack has.
const WRONG_KEY: &str = "a key that nobody configured";
/// Providers whose samples the page offers. The ids in these can be changed, so that each appointment gets a call of its own.
const SAMPLED: [Provider; 3] = [Provider::Retell, Provider::Twilio, Provider::Generic];
/// Appointment in the samples of Retell. It is used unless the form names another.
const USUAL_APPOINTMENT: &str = "appt_201";
/// Age of the signature of a late webhook.
const LATE: Duration = Duration::from_secs(60);
/// Age of the signature of a webhook that somebody recorded.
const OLD: Duration = Duration::from_secs(60 * 60);

/// Signature of a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signature {
    Right,
    WrongKey,
    /// Made by the right key at another time.
    Aged(Duration),
}

/// Answer to a webhook.
struct Answer {
    status: StatusCode,
    /// Result in one word, for example `accepted`.
    word: String,
    event_id: Option<String>,
}

impl LocalPlayground {
    /// Names of the samples that this stack can verify.
    pub(super) async fn samples(&self) -> Vec<String> {
        let keys = self.cloud.webhook_keys().await;
        let configured = |name: &str| {
            let provider = name.split('/').next().and_then(|provider| provider.parse().ok());
            provider.is_some_and(|provider| SAMPLED.contains(&provider) && keys.config(provider).is_some())
        };
        samples().iter().filter(|(name, _)| configured(name)).map(|(name, _)| (*name).to_owned()).collect()
    }

    /// Sends a sample about an appointment.
    pub(super) async fn send_sample(
        &self,
        name: &str,
        appointment: Option<&str>,
        sending: Sending,
    ) -> Result<Done, PlaygroundError> {
        let missing = || PlaygroundError::NoSample(name.to_owned());
        let body = samples().iter().find(|(known, _)| *known == name).map(|(_, body)| *body).ok_or_else(missing)?;
        let provider: Provider = name.split('/').next().unwrap_or_default().parse().map_err(|_| missing())?;
        let appointment = appointment.unwrap_or(USUAL_APPOINTMENT);
        let body = about(provider, body, appointment);
        let query = if provider == Provider::Twilio { format!("?appointment_id={appointment}") } else { String::new() };
        let (copies, signature) = match sending {
            Sending::Once => (1, Signature::Right),
            Sending::Twice => (2, Signature::Right),
            Sending::Late => (1, Signature::Aged(LATE)),
            Sending::WrongKey => (1, Signature::WrongKey),
            Sending::OldTimestamp => (1, Signature::Aged(OLD)),
        };
        let (mut answers, mut events) = (Vec::new(), Vec::new());
        for _ in 0..copies {
            let Answer { status, word, event_id } = self.post(provider, &query, &body, signature).await?;
            answers.push(format!("{} {word}", status.as_u16()));
            events.extend(event_id.filter(|id| !events.contains(id)));
            tokio::time::sleep(super::PUMP).await;
        }
        let text = format!("{name} was sent and answered: {}.", answers.join(", then "));
        let call = format!("appointment:{appointment}");
        // An accepted webhook is folded a moment later. Not every sample is about a call with an appointment.
        let most = if answers.iter().any(|answer| answer.ends_with("accepted")) { SOON / 4 } else { Duration::ZERO };
        let shown = self.poll(&call, most, |_| true).await?;
        let calls = shown.map(|_| call).into_iter().collect();
        Ok(Done { calls, events, ..Done::new(text) })
    }

    /// Posts an event of the generic provider. Returns the status of the answer.
    pub(super) async fn post_event(&self, event: &Value, signature: Signature) -> Result<StatusCode, PlaygroundError> {
        Ok(self.post(Provider::Generic, "", &event.to_string(), signature).await?.status)
    }

    /// Signs a webhook and posts it.
    async fn post(
        &self,
        provider: Provider,
        query: &str,
        body: &str,
        signature: Signature,
    ) -> Result<Answer, PlaygroundError> {
        let no_key = || PlaygroundError::NoKey(provider);
        let keys = self.cloud.webhook_keys().await;
        let config = keys.config(provider).ok_or_else(no_key)?;
        let path = format!("/webhooks/{provider}{query}");
        // Behind a tunnel, a provider posts to another URL than the one of this stack, and signs that one.
        let base_url = config.public_url().unwrap_or(&self.stack.names.api_url);
        let url = format!("{base_url}{path}");
        let signed_at = match signature {
            Signature::Right | Signature::WrongKey => self.now(),
            Signature::Aged(age) => self.now().minus(age),
        };
        let signed = match signature {
            Signature::WrongKey => {
                let key = Key::new(WRONG_KEY).map_err(|_| no_key())?;
                sign(provider, &key, &url, body.as_bytes(), signed_at).into()
            }
            Signature::Right | Signature::Aged(_) => {
                sign_as_configured(provider, config, &url, body.as_bytes(), signed_at).ok_or_else(no_key)?
            }
        };
        // The signer may add to the query.
        let path = signed.url.strip_prefix(base_url).unwrap_or(&path).to_owned();
        let mut request = Request::post(path).header(http::header::CONTENT_TYPE, signed.content_type);
        for (name, value) in &signed.headers {
            request = request.header(name.as_str(), value.as_str());
        }
        let response = self.cloud.request(request.body(Bytes::from(body.to_owned()))?).await;
        let answer: Value = serde_json::from_slice(response.body()).unwrap_or_default();
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let word = text("status").or_else(|| text("error")).unwrap_or_default();
        Ok(Answer { status: response.status(), word, event_id: text("event_id") })
    }
}

/// Returns a sample with the ids of this appointment, so that the samples of one appointment are about one call, and those of
/// another are about another.
fn about(provider: Provider, body: &str, appointment: &str) -> String {
    match serde_json::from_str::<Value>(body) {
        Ok(mut event) => {
            for (pointer, is_appointment) in [
                ("/call/metadata/appointment_id", true),
                ("/appointment_id", true),
                ("/call/call_id", false),
                ("/call/sid", false),
                ("/event_id", false),
                ("/CallSid", false),
            ] {
                if let Some(Value::String(id)) = event.pointer_mut(pointer) {
                    *id = if is_appointment { appointment.to_owned() } else { format!("{id}-{appointment}") };
                }
            }
            event.to_string()
        }
        Err(_) if provider == Provider::Twilio => {
            let fields = form_urlencoded::parse(body.as_bytes()).map(|(name, value)| {
                let is_id = name == "CallSid" || name == "ParentCallSid";
                let value = if is_id { format!("{value}-{appointment}") } else { value.into_owned() };
                (name.into_owned(), value)
            });
            form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
        }
        Err(_) => body.to_owned(),
    }
}

/// Returns an event of the generic provider about a call with this appointment.
pub(super) fn generic_event(appointment: &str, number: u32, event_type: &str, occurred_at: Timestamp) -> Value {
    json!({
        "event_id": format!("{appointment}-{number}"),
        "appointment_id": appointment,
        "event_type": event_type,
        "occurred_at": occurred_at.to_string(),
        "call": {"sid": format!("CA-{appointment}"), "to": "+447700900123", "from": "+442079460018", "direction": "outbound"},
    })
}
