//! Configuration, requests and a call that the tests of the APIs share.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use switchhook_domain::{AttemptKey, CallId, PhoneNumber, Provider, Timestamp};
use switchhook_providers::{
    AccountConfig, ApiRequest, CallSearch, ClientError, DialRequest, Lookup, LookupAnswer, ProvidersFile, SearchStep,
    dial_api_request,
};

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_760_962_600_000);

pub(crate) const DIALLED_AT: Timestamp = Timestamp::from_millis(1_760_962_435_000);

pub(crate) const CONFIG: &str = r#"{
    "retell": {"keys": ["k"], "dial": {"api_key": "SECRET", "agent_id": "agent_1"}},
    "twilio": {"keys": ["k"], "public_url": "https://hooks.example.com/prod", "dial": {
        "account_sid": "AC1", "api_key_sid": "SK1", "api_key_secret": "SECRET",
        "twiml_url": "https://app.example.com/twiml?lang=en", "machine_detection": true}},
    "vapi": {"keys": ["k"], "dial": {"api_key": "SECRET", "assistant_id": "as-1", "phone_number_id": "pn-1"}},
    "telnyx": {"keys": ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="], "public_url": "https://hooks.example.com/prod",
        "dial": {"api_key": "SECRET", "connection_id": "281", "assistant_id": "assistant-1",
            "machine_detection": "premium"}},
    "elevenlabs": {"keys": ["k"], "dial": {"api_key": "SECRET", "agent_id": "ag-1", "agent_phone_number_id": "pn-1"}},
    "plivo": {"keys": ["k"], "public_url": "https://hooks.example.com/prod", "dial": {
        "auth_id": "MA1", "auth_token": "SECRET", "answer_url": "https://app.example.com/answer?lang=en",
        "machine_detection": true}},
    "vonage": {"keys": ["k"], "public_url": "https://hooks.example.com/prod", "dial": {
        "application_id": "app-1", "private_key": "PRIVATE_KEY", "answer_url": "https://app.example.com/answer?lang=en",
        "machine_detection": true}},
    "livekit": {"keys": ["k"], "dial": {
        "api_url": "https://name.livekit.example", "api_key": "APIk1", "api_secret": "SECRET", "sip_trunk_id": "ST_1",
        "ringing_timeout_seconds": 45}},
    "bland": {"keys": ["k"], "public_url": "https://hooks.example.com/prod", "dial": {
        "api_key": "SECRET", "pathway_id": "path-1", "max_duration": 12,
        "voicemail": {"action": "leave_message", "message": "Please call us back."}}},
    "signalwire": {"keys": ["k"], "public_url": "https://hooks.example.com/prod", "dial": {
        "api_url": "https://example.signalwire.com", "project_id": "project-1", "api_token": "SECRET",
        "cxml_url": "https://app.example.com/cxml?lang=en", "machine_detection": true}},
    "generic": {"keys": ["k"]}}"#;

pub(crate) const DIALLED: [Provider; 10] = [
    Provider::Retell,
    Provider::Twilio,
    Provider::Vapi,
    Provider::Telnyx,
    Provider::ElevenLabs,
    Provider::Plivo,
    Provider::Vonage,
    Provider::LiveKit,
    Provider::Bland,
    Provider::SignalWire,
];

/// Private key of Vonage's application.
pub(crate) const PRIVATE_KEY: &str = include_str!("../../fixtures/vonage/private_key.pem");

/// [`CONFIG`] with the private key.
pub(crate) fn providers_file() -> ProvidersFile {
    crate::providers_file(&with_private_key(CONFIG)).unwrap()
}

/// Puts the private key into a JSON text.
pub(crate) fn with_private_key(json: &str) -> String {
    json.replace("PRIVATE_KEY", &PRIVATE_KEY.replace('\n', "\\n"))
}

pub(crate) fn config(provider: Provider) -> AccountConfig {
    providers_file().dial_accounts().config(provider).cloned().unwrap()
}

/// Owned parts of a [`DialRequest`].
pub(crate) struct Job {
    pub(crate) call_id: CallId,
    pub(crate) attempt: AttemptKey,
    pub(crate) from: PhoneNumber,
    pub(crate) to: PhoneNumber,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Job {
    pub(crate) fn new(metadata: &[(&str, &str)]) -> Self {
        Self {
            call_id: CallId::new("call 1/ä"),
            attempt: AttemptKey::new("2"),
            from: PhoneNumber::new("+442079460018"),
            to: PhoneNumber::new("+447700900000"),
            metadata: metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        }
    }

    pub(crate) fn request(&self) -> DialRequest<'_> {
        DialRequest {
            call_id: &self.call_id,
            attempt: &self.attempt,
            is_last_attempt: true,
            from: &self.from,
            to: &self.to,
            appointment_id: Some("appt_7"),
            metadata: &self.metadata,
            dial_key: "call 1/ä#2",
        }
    }

    pub(crate) fn lookup<'a>(&'a self, provider_call_id: Option<&'a str>) -> Lookup<'a> {
        Lookup {
            call_id: &self.call_id,
            attempt: &self.attempt,
            provider_call_id,
            dialled_at: Some(DIALLED_AT),
            from: Some(&self.from),
            to: Some(&self.to),
        }
    }

    /// Plays a search against these responses. Returns its requests, and its answer once it has one.
    pub(crate) fn search(
        &self,
        provider: Provider,
        provider_call_id: Option<&str>,
        now: Timestamp,
        responses: impl IntoIterator<Item = (u16, Value)>,
    ) -> (Vec<ApiRequest>, Option<LookupAnswer>) {
        let config = config(provider);
        let mut search = CallSearch::start(provider, &config, self.lookup(provider_call_id)).unwrap();
        let mut requests = Vec::new();
        for (status, body) in responses {
            requests.push(search.request().clone());
            match search.respond(status, body.to_string().as_bytes(), now) {
                SearchStep::Ask(next) => search = next,
                SearchStep::Answer(answer) => return (requests, Some(answer)),
            }
        }
        (requests, None)
    }
}

pub(crate) fn alive(id: &str) -> LookupAnswer {
    LookupAnswer::Alive { provider_call_id: id.to_owned() }
}

pub(crate) fn undecided(reason: &'static str) -> LookupAnswer {
    LookupAnswer::Undecided { reason }
}

pub(crate) fn job() -> Job {
    Job::new(&[("customer_name", "Ada & Co"), ("switchhook_call_id", "theirs"), ("appointment_id", "theirs")])
}

pub(crate) fn dial_request(provider: Provider) -> ApiRequest {
    dial_api_request(provider, &config(provider), &job().request()).unwrap()
}

pub(crate) fn lookup_request(provider: Provider, provider_call_id: Option<&str>) -> Result<ApiRequest, ClientError> {
    let (config, job) = (config(provider), job());
    CallSearch::start(provider, &config, job.lookup(provider_call_id)).map(|search| search.request().clone())
}

/// The request as lines of text. Of the authorization only the scheme is included, an API key without a scheme is left out, and a form has one parameter per line.
pub(crate) fn shown(request: &ApiRequest) -> String {
    let mut lines = format!("{} {}", request.method, request.path);
    for (name, value) in &request.headers {
        let value = match *name {
            "authorization" => value.split_once(' ').map_or("…", |(scheme, _)| scheme),
            "xi-api-key" => "…",
            _ => value,
        };
        write!(lines, "\n{name}: {value}").unwrap();
    }
    let body = std::str::from_utf8(&request.body).unwrap();
    match serde_json::from_str::<Value>(body) {
        Ok(json) => write!(lines, "\n{}", serde_json::to_string_pretty(&json).unwrap()).unwrap(),
        Err(_) => {
            for (name, value) in form_urlencoded::parse(body.as_bytes()) {
                write!(lines, "\n{name} = {value}").unwrap();
            }
        }
    }
    lines
}
