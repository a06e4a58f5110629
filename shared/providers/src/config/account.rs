//! Dial account of a provider: the half of its configuration with which calls are placed. (The other half, in `webhook`, verifies
//! webhooks.)
//!
//! Each provider has an account type of its own.

use std::fmt;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use switchhook_domain::Provider;

use super::fields::Fields;
use crate::jwt::RsaKey;
use crate::key::Key;
use crate::user_decision::DecisionRule;

/// Account that places the calls of one provider, and answers questions about them. `Debug` hides the account.
#[derive(Clone)]
pub struct AccountConfig {
    /// Provider that the entry names. Its events carry this name.
    pub(crate) provider: Provider,
    pub(super) account: Account,
    pub(super) base_url: Option<String>,
    pub(super) public_url: Option<String>,
    pub(super) discover: bool,
    pub(super) decision: Option<DecisionRule>,
}

impl AccountConfig {
    /// Base URL of the account's API, without a slash at the end. `None` for the one that accounts of the provider have by default.
    pub(crate) fn base_url(&self) -> Option<&str> {
        self.base_url.as_deref()
    }

    /// URL that the provider posts the webhooks of placed calls to. `None` if the configuration has no
    /// [`public_url`](super::WebhookConfig::public_url).
    pub(crate) fn webhook_url(&self) -> Option<String> {
        self.public_url.as_ref().map(|start| format!("{start}/webhooks/{}", self.provider))
    }

    /// Rule that finds the person's decision in the answer to a lookup. The webhooks have the same rule.
    pub(crate) const fn decision(&self) -> Option<&DecisionRule> {
        self.decision.as_ref()
    }

    /// True if discovery reads the provider's own list of calls, to find calls that no webhook reported.
    #[must_use]
    pub fn discovers(&self) -> bool {
        self.discover
    }

    /// Key of a dial that this account makes: the random id, a hyphen, and the tag of the account.
    #[must_use]
    pub fn dial_key(&self, random_id: &str) -> String {
        format!("{random_id}-{}", self.tag())
    }

    /// True if this account made the dial. Otherwise nobody can say from its list of calls that the dial never happened.
    #[must_use]
    pub fn made_dial(&self, dial_key: &str) -> bool {
        dial_key.split_once('-').is_some_and(|(_, tag)| tag == self.tag())
    }

    /// Tag of the account and of the part of it in which a search looks: eight digits of a hash, from which nobody can tell
    /// a key. A new key of an account whose id the configuration does not name makes it another account.
    fn tag(&self) -> String {
        let account = match &self.account {
            Account::Retell(RetellAccount { api_key, .. })
            | Account::Vapi(VapiAccount { api_key, .. })
            | Account::ElevenLabs(ElevenLabsAccount { api_key, .. })
            | Account::Bland(BlandAccount { api_key, .. }) => api_key.as_str(),
            Account::Twilio(account) => &account.account_sid,
            Account::Telnyx(account) => &account.connection_id,
            Account::Plivo(account) => &account.auth_id,
            Account::Vonage(account) => &account.application_id,
            // The URL names the project.
            Account::LiveKit(account) => &account.room_prefix,
            Account::SignalWire(account) => &account.project_id,
        };
        let text = format!("{} {account}", self.base_url().unwrap_or_default());
        hex::encode(Sha256::digest(text)).chars().take(TAG_CHARS).collect()
    }
}

/// Length of the tag of an account.
const TAG_CHARS: usize = 8;

impl fmt::Debug for AccountConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountConfig").field("discover", &self.discover).finish_non_exhaustive()
    }
}

macro_rules! accounts {
    ($($name:ident($account:ident),)+) => {
        #[derive(Clone)]
        pub(super) enum Account {
            $($name($account),)+
        }

        $(
            impl $account {
                /// Account of a configuration. `None` if it is another provider's.
                pub(crate) fn of(config: &AccountConfig) -> Option<&Self> {
                    if let Account::$name(account) = &config.account { Some(account) } else { None }
                }
            }
        )+
    };
}

accounts! {
    Retell(RetellAccount),
    Twilio(TwilioAccount),
    Vapi(VapiAccount),
    Telnyx(TelnyxAccount),
    ElevenLabs(ElevenLabsAccount),
    Plivo(PlivoAccount),
    Vonage(VonageAccount),
    LiveKit(LiveKitAccount),
    Bland(BlandAccount),
    SignalWire(SignalWireAccount),
}

impl Account {
    /// Reads the account from the fields of an entry `dial`. `None` if the fields have a problem, or if the provider has no
    /// API (generic).
    pub(super) fn read(provider: Provider, fields: &mut Fields<'_>) -> Option<Self> {
        match provider.vendor() {
            Provider::Retell => RetellAccount::read(fields).map(Self::Retell),
            Provider::Twilio => TwilioAccount::read(fields).map(Self::Twilio),
            Provider::Vapi => VapiAccount::read(fields).map(Self::Vapi),
            Provider::Telnyx => TelnyxAccount::read(fields).map(Self::Telnyx),
            Provider::ElevenLabs => ElevenLabsAccount::read(fields).map(Self::ElevenLabs),
            Provider::Plivo => PlivoAccount::read(fields).map(Self::Plivo),
            Provider::Vonage => VonageAccount::read(fields).map(Self::Vonage),
            Provider::Bland => BlandAccount::read(fields).map(Self::Bland),
            Provider::SignalWire => SignalWireAccount::read(fields).map(Self::SignalWire),
            Provider::LiveKit => LiveKitAccount::read(fields).map(Self::LiveKit),
            Provider::Daily | Provider::Generic | Provider::Named(_) => None,
        }
    }

    /// Names of the fields of the provider's account, for the message about an unknown field.
    pub(super) fn field_names(provider: Provider) -> &'static str {
        match provider.vendor() {
            Provider::Retell => "api_key, agent_id, honor_internal_dnc",
            Provider::Twilio => {
                "account_sid, auth_token (or api_key_sid and api_key_secret), twiml_url, machine_detection, api_url"
            }
            Provider::Vapi => "api_key, assistant_id, phone_number_id, api_url",
            Provider::Telnyx => "api_key, connection_id, assistant_id, machine_detection",
            Provider::ElevenLabs => "api_key, agent_id, agent_phone_number_id, phone_number_type, api_url",
            Provider::Plivo => "auth_id, auth_token, answer_url, machine_detection",
            Provider::Vonage => "application_id, private_key, answer_url, machine_detection",
            Provider::Bland => "api_key, task (or pathway_id), max_duration, voicemail",
            Provider::SignalWire => "api_url, project_id, api_token, cxml_url, machine_detection",
            Provider::LiveKit => "api_url, api_key, api_secret, sip_trunk_id, room_prefix, ringing_timeout_seconds",
            Provider::Daily | Provider::Generic | Provider::Named(_) => "",
        }
    }
}

#[derive(Clone)]
pub(crate) struct RetellAccount {
    pub(crate) api_key: Key,
    /// Agent that speaks. `None` if Retell uses the agent that is bound to the calling number.
    pub(crate) agent_id: Option<String>,
    /// True if Retell should refuse to call contacts that are marked `do_not_call` in Retell.
    pub(crate) honor_internal_dnc: bool,
}

impl RetellAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (api_key, agent_id) = (fields.key("api_key"), fields.optional_text("agent_id"));
        let honor_internal_dnc = fields.flag("honor_internal_dnc").unwrap_or(false);
        Some(Self { api_key: api_key?, agent_id, honor_internal_dnc })
    }
}

#[derive(Clone)]
pub(crate) struct TwilioAccount {
    pub(crate) account_sid: String,
    /// User name for the API: the SID of the account, or the SID of an API key.
    pub(crate) user: String,
    pub(crate) password: Key,
    pub(crate) twiml_url: String,
    pub(crate) machine_detection: bool,
}

impl TwilioAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let account_sid = fields.text("account_sid");
        let login = if fields.has("api_key_sid") || fields.has("api_key_secret") {
            fields.reject("auth_token", "not allowed together with api_key_sid and api_key_secret");
            (fields.text("api_key_sid"), fields.key("api_key_secret"))
        } else {
            (account_sid.clone(), fields.key("auth_token"))
        };
        // With an application, Twilio uses the application's callbacks and ignores those of the request.
        fields.reject("application_sid", "not supported: Twilio then ignores the callback URL that carries our ids");
        let twiml_url = fields.url("twiml_url");
        let machine_detection = fields.flag("machine_detection").unwrap_or(false);
        let (user, password) = login;
        Some(Self {
            account_sid: account_sid?,
            user: user?,
            password: password?,
            twiml_url: twiml_url?,
            machine_detection,
        })
    }
}

#[derive(Clone)]
pub(crate) struct VapiAccount {
    pub(crate) api_key: Key,
    pub(crate) assistant_id: String,
    /// Vapi's id of the calling number. A dial request cannot name another number, so the `from` of a call is not sent.
    pub(crate) phone_number_id: String,
}

impl VapiAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let api_key = fields.key("api_key");
        let (assistant_id, phone_number_id) = (fields.text("assistant_id"), fields.text("phone_number_id"));
        Some(Self { api_key: api_key?, assistant_id: assistant_id?, phone_number_id: phone_number_id? })
    }
}

#[derive(Clone)]
pub(crate) struct TelnyxAccount {
    pub(crate) api_key: Key,
    pub(crate) connection_id: String,
    /// Telnyx's id of the assistant that talks to the person. `None` if the user's own program controls the call.
    pub(crate) assistant_id: Option<String>,
    /// Kind of answering-machine detection, by Telnyx's name. `None` if answering machines are not detected.
    pub(crate) machine_detection: Option<&'static str>,
}

/// Telnyx's kinds of answering-machine detection.
const TELNYX_MACHINE_DETECTION: [&str; 6] =
    ["premium", "premium_ios_call_screening_detection", "detect", "detect_beep", "detect_words", "greeting_end"];

impl TelnyxAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (api_key, connection_id) = (fields.key("api_key"), fields.text("connection_id"));
        let assistant_id = fields.optional_text("assistant_id");
        let machine_detection = fields.optional_text("machine_detection").and_then(|name| {
            let known = TELNYX_MACHINE_DETECTION.into_iter().find(|known| *known == name);
            if known.is_none() {
                fields.problem("machine_detection", &format!("not one of {}", TELNYX_MACHINE_DETECTION.join(", ")));
            }
            known
        });
        Some(Self { api_key: api_key?, connection_id: connection_id?, assistant_id, machine_detection })
    }
}

#[derive(Clone)]
pub(crate) struct ElevenLabsAccount {
    pub(crate) api_key: Key,
    pub(crate) agent_id: String,
    /// ElevenLabs' id of the calling number. A dial request cannot name another number, so the `from` of a call is not sent.
    pub(crate) agent_phone_number_id: String,
    /// True if the number belongs to a SIP trunk. False if it was imported from Twilio.
    pub(crate) uses_sip_trunk: bool,
}

impl ElevenLabsAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (api_key, agent_id) = (fields.key("api_key"), fields.text("agent_id"));
        let agent_phone_number_id = fields.text("agent_phone_number_id");
        let phone_number_type = fields.optional_text("phone_number_type");
        let uses_sip_trunk = match phone_number_type.as_deref() {
            None | Some("twilio") => false,
            Some("sip_trunk") => true,
            Some(_) => {
                fields.problem("phone_number_type", "neither twilio nor sip_trunk");
                false
            }
        };
        Some(Self {
            api_key: api_key?,
            agent_id: agent_id?,
            agent_phone_number_id: agent_phone_number_id?,
            uses_sip_trunk,
        })
    }
}

#[derive(Clone)]
pub(crate) struct PlivoAccount {
    /// Id of the account or of a subaccount.
    pub(crate) auth_id: String,
    pub(crate) auth_token: Key,
    /// URL of the application that answers with Plivo XML once somebody has picked up.
    pub(crate) answer_url: String,
    pub(crate) machine_detection: bool,
}

impl PlivoAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (auth_id, auth_token) = (fields.text("auth_id"), fields.key("auth_token"));
        let answer_url = fields.url("answer_url");
        let machine_detection = fields.flag("machine_detection").unwrap_or(false);
        Some(Self { auth_id: auth_id?, auth_token: auth_token?, answer_url: answer_url?, machine_detection })
    }
}

#[derive(Clone)]
pub(crate) struct VonageAccount {
    pub(crate) application_id: String,
    /// Key of the application. It signs the tokens that open the API.
    pub(crate) private_key: RsaKey,
    /// URL of the application that answers with a call control object once somebody has picked up.
    pub(crate) answer_url: String,
    pub(crate) machine_detection: bool,
}

impl VonageAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let application_id = fields.text("application_id");
        let private_key = match fields.take("private_key") {
            Some(Value::String(pem)) => {
                RsaKey::from_pem(&pem).ok_or("not an RSA private key in PEM form, of 2048 to 4096 bits")
            }
            Some(_) => Err("not a text"),
            None => Err("missing"),
        };
        let private_key = private_key.map_err(|message| fields.problem("private_key", message)).ok();
        let answer_url = fields.url("answer_url");
        let machine_detection = fields.flag("machine_detection").unwrap_or(false);
        Some(Self {
            application_id: application_id?,
            private_key: private_key?,
            answer_url: answer_url?,
            machine_detection,
        })
    }
}

#[derive(Clone)]
pub(crate) struct LiveKitAccount {
    /// Id of the API key. It is not secret.
    pub(crate) api_key: String,
    /// Secret of the API key. It signs the tokens that open the API.
    pub(crate) api_secret: Key,
    /// Outbound trunk that places the calls.
    pub(crate) sip_trunk_id: String,
    /// Start of the names of the rooms in which calls take place.
    pub(crate) room_prefix: String,
    /// Seconds for which the phone rings at most. `None` for LiveKit's default.
    pub(crate) ringing_timeout_s: Option<u64>,
}

/// Default of `room_prefix`.
const LIVEKIT_ROOM_PREFIX: &str = "switchhook-";
/// Longest `room_prefix`, in bytes. LiveKit limits the names of rooms, and the rest of a name has 32.
const LIVEKIT_ROOM_PREFIX_BYTES_MAX: usize = 32;
/// Longest time for which a phone may ring. Networks end a call earlier.
const LIVEKIT_RINGING_SECONDS_MAX: u64 = 180;

impl LiveKitAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (api_key, api_secret) = (fields.text("api_key"), fields.key("api_secret"));
        let sip_trunk_id = fields.text("sip_trunk_id");
        let room_prefix = fields.optional_text("room_prefix").unwrap_or_else(|| LIVEKIT_ROOM_PREFIX.to_owned());
        if room_prefix.len() > LIVEKIT_ROOM_PREFIX_BYTES_MAX {
            fields.problem("room_prefix", &format!("longer than {LIVEKIT_ROOM_PREFIX_BYTES_MAX} bytes"));
        }
        let ringing_timeout = fields.take("ringing_timeout_seconds");
        let seconds = ringing_timeout.as_ref().and_then(Value::as_u64);
        let ringing_timeout_s = seconds.filter(|seconds| (1..=LIVEKIT_RINGING_SECONDS_MAX).contains(seconds));
        if ringing_timeout.is_some() && ringing_timeout_s.is_none() {
            let message = format!("not a whole number from 1 to {LIVEKIT_RINGING_SECONDS_MAX}");
            fields.problem("ringing_timeout_seconds", &message);
        }
        Some(Self {
            api_key: api_key?,
            api_secret: api_secret?,
            sip_trunk_id: sip_trunk_id?,
            room_prefix,
            ringing_timeout_s,
        })
    }
}

#[derive(Clone)]
pub(crate) struct BlandAccount {
    pub(crate) api_key: Key,
    pub(crate) agent: BlandAgent,
    /// Longest call in minutes. `None` if Bland's own limit counts.
    pub(crate) max_duration: Option<u64>,
    /// Bland's own setting for a call that a voicemail answers. It is passed on unchanged.
    pub(crate) voicemail: Option<Map<String, Value>>,
}

/// The agent that speaks in a call of Bland.
#[derive(Clone)]
pub(crate) enum BlandAgent {
    /// Instructions for the agent.
    Task(String),
    /// Bland's id of a conversational pathway.
    Pathway(String),
}

/// Longest call that may be asked for, in minutes.
const BLAND_MINUTES_MAX: u64 = 24 * 60;

impl BlandAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let api_key = fields.key("api_key");
        let agent = match (fields.has("task"), fields.has("pathway_id")) {
            (true, false) => fields.text("task").map(BlandAgent::Task),
            (false, true) => fields.text("pathway_id").map(BlandAgent::Pathway),
            (true, true) => {
                fields.problem("pathway_id", "not beside task: one of them speaks");
                fields.take("task");
                None
            }
            (false, false) => {
                fields.problem("task", "missing: either task, the instructions of the agent, or pathway_id");
                None
            }
        };
        let max_duration = fields.take("max_duration").and_then(|value| {
            let minutes = value.as_u64().filter(|minutes| (1..=BLAND_MINUTES_MAX).contains(minutes));
            if minutes.is_none() {
                fields.problem("max_duration", &format!("not a whole number of minutes from 1 to {BLAND_MINUTES_MAX}"));
            }
            minutes
        });
        let voicemail = match fields.take("voicemail") {
            None => None,
            Some(Value::Object(voicemail)) => Some(voicemail),
            Some(_) => {
                fields.problem("voicemail", "not an object");
                None
            }
        };
        Some(Self { api_key: api_key?, agent: agent?, max_duration, voicemail })
    }
}

#[derive(Clone)]
pub(crate) struct SignalWireAccount {
    pub(crate) project_id: String,
    pub(crate) api_token: Key,
    /// URL of the application that answers with cXML once somebody has picked up.
    pub(crate) cxml_url: String,
    pub(crate) machine_detection: bool,
}

impl SignalWireAccount {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (project_id, api_token) = (fields.text("project_id"), fields.key("api_token"));
        let cxml_url = fields.url("cxml_url");
        let machine_detection = fields.flag("machine_detection").unwrap_or(false);
        Some(Self { project_id: project_id?, api_token: api_token?, cxml_url: cxml_url?, machine_detection })
    }
}
