//! Answer to a provider that asks what to do with an inbound call.

use std::fmt;

use http::Method;
use serde_json::Value;
use switchhook_domain::{Provider, Timestamp};

use super::fields::Fields;
use crate::api::ApiRequest;
use crate::generic;
use crate::key::Key;

/// Largest answer, in bytes. Twilio accepts no more (64 KB of TwiML), and the other answers are small.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Answer to the questions of one provider: a fixed one, and perhaps a URL that knows a better one.
#[derive(Clone, Debug)]
pub struct QuestionConfig {
    content_type: &'static str,
    form: AnswerForm,
    fixed: String,
    source: Option<AnswerSource>,
}

/// Form of the answers that a provider reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerForm {
    JsonObject,
    /// Twilio's instructions, an XML document.
    TwiMl,
}

/// Address that answers questions, and the key that signs the requests to it. `Debug` hides both.
#[derive(Clone)]
struct AnswerSource {
    url: String,
    key: Key,
}

impl fmt::Debug for AnswerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerSource").finish_non_exhaustive()
    }
}

/// Form of the answers that the provider reads. `None` if it asks no questions.
fn form(provider: Provider) -> Option<AnswerForm> {
    match provider.vendor() {
        Provider::Retell | Provider::Vapi => Some(AnswerForm::JsonObject),
        Provider::Twilio => Some(AnswerForm::TwiMl),
        Provider::Telnyx
        | Provider::ElevenLabs
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::Bland
        | Provider::SignalWire
        | Provider::Generic
        | Provider::Named(_) => None,
    }
}

/// True if the provider asks questions, so that its entry may have the field `question`.
pub(super) fn asks(provider: Provider) -> bool {
    form(provider).is_some()
}

impl QuestionConfig {
    /// Reads the object `question`. `None` if it is missing or wrong.
    pub(super) fn read(provider: Provider, fields: &mut Fields<'_>) -> Option<Self> {
        let form = form(provider)?;
        let mut fields = fields.object("question")?;
        let fixed = match (form, fields.take("answer")) {
            (AnswerForm::JsonObject, Some(answer @ Value::Object(_))) => Some(answer.to_string()),
            (AnswerForm::TwiMl, Some(Value::String(text))) if form.accepts(text.as_bytes()) => Some(text),
            (_, None) => {
                fields.problem("answer", "missing: it is the answer if the URL gives none in time");
                None
            }
            (AnswerForm::JsonObject, Some(_)) => {
                fields.problem("answer", "not an object: it is sent as JSON");
                None
            }
            (AnswerForm::TwiMl, Some(_)) => {
                fields.problem("answer", "not a text of TwiML, which begins with < and has at most 64 KB");
                None
            }
        };
        let source = if fields.has("url") {
            let url = fields.url("url").filter(|url| {
                let allowed = url.starts_with("https://") || is_this_machine(url);
                if !allowed {
                    fields.problem("url", "not https: only an address of this machine may be http");
                }
                allowed
            });
            let key = fields.key("key");
            url.zip(key).map(|(url, key)| AnswerSource { url, key })
        } else {
            fields.reject("key", "needs url: it signs what is sent there");
            None
        };
        fields.reject_unknown("answer, url, key");
        let content_type = match form {
            AnswerForm::JsonObject => "application/json",
            AnswerForm::TwiMl => "text/xml",
        };
        Some(Self { content_type, form, fixed: fixed?, source })
    }

    /// Content type of the answers.
    #[must_use]
    pub const fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// Fixed answer.
    #[must_use]
    pub fn fixed(&self) -> &str {
        &self.fixed
    }

    /// Base URL and request that ask for an answer. The request repeats the question, signed as the generic provider signs, with
    /// the configured key. `None` if only the fixed answer is configured.
    #[must_use]
    pub fn request(
        &self,
        provider: Provider,
        content_type: &str,
        question: &[u8],
        now: Timestamp,
    ) -> Option<(&str, ApiRequest)> {
        let source = self.source.as_ref()?;
        let mut headers = generic::SCHEME.sign_with_text(&source.key, &source.url, question, now).headers;
        headers.push(("content-type", content_type.to_owned()));
        headers.push(("x-switchhook-provider", provider.to_string()));
        let body = question.to_vec();
        let request =
            ApiRequest { method: Method::POST, base_url: None, path: String::new(), headers, body, token_login: None };
        Some((&source.url, request))
    }

    /// The answer in a response of the URL. `None` if the status is not 200, or if the provider could not read the body.
    #[must_use]
    pub fn answer(&self, status: u16, body: Vec<u8>) -> Option<String> {
        let is_answer = status == 200 && self.form.accepts(&body);
        is_answer.then(|| String::from_utf8(body).ok()).flatten()
    }
}

impl AnswerForm {
    /// True if the provider can read this body.
    fn accepts(self, body: &[u8]) -> bool {
        let has_form = match self {
            Self::JsonObject => matches!(serde_json::from_slice(body), Ok(Value::Object(_))),
            Self::TwiMl => std::str::from_utf8(body).is_ok_and(|text| text.trim_start().starts_with('<')),
        };
        has_form && body.len() <= ANSWER_BYTES_MAX
    }
}

/// True if the URL leads to the machine on which the stack runs.
fn is_this_machine(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    uri.is_some_and(|uri| matches!(uri.host(), Some("localhost" | "127.0.0.1" | "[::1]")))
}
