use std::time::Duration;

use serde_json::{Value, json};
use switchhook_domain::Provider;

use super::{
    AccountConfig, ConfigError, DialRates, DialRatesError, Entries, Entry, KeyLengths, Pacing, ProvidersFile,
    SecretHalf, WebhookConfig,
};

fn file(json: &str) -> Result<ProvidersFile, ConfigError> {
    ProvidersFile::parse(json, KeyLengths::Any)
}

fn problems(json: &str) -> Vec<String> {
    file(json).map_err(|error| error.problems().to_vec()).expect_err("refused")
}

#[test]
fn the_documented_shape_is_read() {
    let providers = file(
        r#"{"retell":{"keys":["new","old"]},
            "twilio":{"keys":["t"],"public_url":"https://user:pass@example.com:8443/prod/"},
            "vapi":{"keys":["v"]},
            "telnyx":{"keys":["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
                      "dial":{"api_key":"KEY0","connection_id":"281"}},
            "elevenlabs":{"keys":["e"]},
            "plivo":{"keys":["p"],"public_url":"https://example.com"},
            "vonage":{"keys":["o"]},
            "livekit":{"keys":["l"]},
            "daily":{"keys":["ZGFpbHk="]},
            "bland":{"keys":["b"]},
            "signalwire":{"keys":["s"],"public_url":"https://example.com"},
            "generic":{"keys":["g"],"window_seconds":60,"allowed_sources":["10.0.0.0/8","::1","192.0.2.7"]}}"#,
    )
    .unwrap();

    let keys = providers.webhook_keys();
    let retell = keys.config(Provider::Retell).unwrap();
    assert_eq!(retell.keys().len(), 2);
    assert_eq!(retell.window(), Some(Duration::from_secs(300)));
    assert_eq!(retell.public_url(), None);

    let twilio = keys.config(Provider::Twilio).unwrap();
    assert_eq!(twilio.public_url(), Some("https://user:pass@example.com:8443/prod"));
    assert_eq!(twilio.window(), None);

    let generic = keys.config(Provider::Generic).unwrap();
    assert_eq!(generic.window(), Some(Duration::from_secs(60)));
    assert_eq!(generic.allowed_sources().len(), 3);

    let telnyx = keys.config(Provider::Telnyx).unwrap();
    assert_eq!(telnyx.window(), Some(Duration::from_secs(300)));
    // Its last retry comes after 30 minutes, perhaps with the first signature.
    let elevenlabs = keys.config(Provider::ElevenLabs).unwrap();
    assert_eq!(elevenlabs.window(), Some(Duration::from_secs(45 * 60)));
    // Its last retry may come after 75 minutes, perhaps with the first signature.
    assert_eq!(keys.config(Provider::Daily).unwrap().window(), Some(Duration::from_secs(80 * 60)));
    assert!(Provider::ALL.into_iter().all(|provider| keys.config(provider).is_some()));

    let dials = |provider: &Provider| providers.dial_accounts().config(*provider).is_some();
    assert_eq!(Provider::ALL.into_iter().filter(dials).collect::<Vec<_>>(), [Provider::Telnyx]);
}

#[test]
fn a_provider_that_is_left_out_is_not_configured() {
    let providers = file(r#"{"generic":{"keys":["g"]}}"#).unwrap();
    assert!(matches!(providers.webhook_keys().entry(Provider::Retell), Entry::Unnamed));
}

#[test]
fn every_problem_is_reported_at_once_and_no_value_is_shown() {
    let json = r#"{
        "generic":{"keys":["SECRET","  ","SECRET\n",7],"window_seconds":0,"allowed_sources":["SECRET","10.0.0.0/8"],"key":"SECRET"},
        "other":{"keys":["SECRET"]},
        "retell":{"keys":[],"window_seconds":86401,"allowed_sources":[]},
        "twilio":{"keys":"SECRET","window_seconds":300}}"#;
    let problems = problems(json);
    assert_eq!(
        problems,
        [
            "generic.keys[1]: the key is empty",
            "generic.keys[2]: the key begins or ends with white space",
            "generic.keys[3]: not a text",
            "generic.window_seconds: not a whole number from 1 to 86400",
            "generic.allowed_sources[0]: not an address block such as 10.0.0.0/8, nor an address",
            "generic.\"key\": unknown field: known are keys, window_seconds, allowed_sources, public_url",
            "unknown provider \"other\": known are retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, daily, bland, signalwire, generic, and accounts of them such as twilio-eu, and names such as x-acme, \
             whose entries describe the provider",
            "retell.keys: the list is empty",
            "retell.window_seconds: not a whole number from 1 to 86400",
            "retell.allowed_sources: the list is empty; leave it out to allow every source",
            "twilio.public_url: missing: twilio signs the URL that it posts to, for example https://example.com",
            "twilio.keys: not a list",
            "twilio.window_seconds: not for twilio, which signs no timestamp",
        ]
    );
    let error = file(json).expect_err("refused");
    assert!(!format!("{error} {error:?}").contains("SECRET"));
}

#[test]
fn telnyx_keys_must_be_public_keys() {
    let telnyx = |key: &str| format!(r#"{{"telnyx":{{"keys":["{key}"]}}}}"#);
    // Short, long, not base64, not on the curve, and the neutral element, for which anybody can sign.
    for key in [
        "key",
        "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURoA",
        "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ] {
        assert_eq!(problems(&telnyx(key)), ["telnyx.keys[0]: not the base64 of an Ed25519 public key"], "{key}");
    }
    assert!(file(&telnyx("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")).is_ok());
}

#[test]
fn dialling_is_configured_per_provider() {
    let dial = |provider: &str, dial: &str| {
        let key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        let url = "https://example.com";
        let json = format!(r#"{{"{provider}":{{"keys":["{key}"],"public_url":"{url}","dial":{dial}}}}}"#);
        file(&json).map(|providers| providers.dial_accounts().config(provider.parse().unwrap()).is_some())
    };
    for (provider, good) in [
        ("retell", r#"{"api_key":"SECRET"}"#),
        ("retell", r#"{"api_key":"SECRET","agent_id":"agent_1"}"#),
        ("twilio", r#"{"account_sid":"AC1","auth_token":"SECRET","twiml_url":"https://x.example/t?a=1"}"#),
        (
            "twilio",
            r#"{"account_sid":"AC1","api_key_sid":"SK1","api_key_secret":"SECRET","twiml_url":"https://x.example",
                "machine_detection":true}"#,
        ),
        ("vapi", r#"{"api_key":"SECRET","assistant_id":"a","phone_number_id":"p"}"#),
        ("telnyx", r#"{"api_key":"SECRET","connection_id":"c"}"#),
        ("telnyx", r#"{"api_key":"SECRET","connection_id":"c","assistant_id":"a","machine_detection":"premium"}"#),
        ("elevenlabs", r#"{"api_key":"SECRET","agent_id":"a","agent_phone_number_id":"p"}"#),
        (
            "elevenlabs",
            r#"{"api_key":"SECRET","agent_id":"a","agent_phone_number_id":"p","phone_number_type":"sip_trunk"}"#,
        ),
    ] {
        assert_eq!(dial(provider, good), Ok(true), "{good}");
    }
    let problems = |provider: &str, json: &str| {
        dial(provider, json).map_err(|error| error.problems().to_vec()).expect_err("refused")
    };
    assert_eq!(
        problems("retell", r#"{"api_key":"SECRET ","agent_id":7,"per_second":1,"agent":"SECRET"}"#),
        [
            "retell.dial.api_key: the key begins or ends with white space",
            "retell.dial.agent_id: not a text",
            "retell.dial.per_second: not here: the parameter DialRates of the stack sets the rate",
            "retell.dial.\"agent\": unknown field: known are api_key, agent_id, honor_internal_dnc",
        ]
    );
    assert_eq!(
        problems(
            "twilio",
            r#"{"auth_token":"SECRET","api_key_sid":"SK1","application_sid":"AP1","twiml_url":"https://x.example/#a",
                "machine_detection":"yes"}"#
        ),
        [
            "twilio.dial.account_sid: missing",
            "twilio.dial.auth_token: not allowed together with api_key_sid and api_key_secret",
            "twilio.dial.api_key_secret: missing",
            "twilio.dial.application_sid: not supported: Twilio then ignores the callback URL that carries our ids",
            "twilio.dial.twiml_url: not an http or https URL without fragment",
            "twilio.dial.machine_detection: neither true nor false",
        ]
    );
    assert_eq!(
        problems("vapi", "{}"),
        ["vapi.dial.api_key: missing", "vapi.dial.assistant_id: missing", "vapi.dial.phone_number_id: missing",]
    );
    assert_eq!(
        problems("telnyx", r#"{"connection_id":"","machine_detection":"maybe"}"#),
        [
            "telnyx.dial.api_key: missing",
            "telnyx.dial.connection_id: empty, or with white space around it",
            "telnyx.dial.machine_detection: not one of premium, premium_ios_call_screening_detection, detect, detect_beep, \
             detect_words, greeting_end",
        ]
    );
    assert_eq!(
        problems("elevenlabs", r#"{"agent_id":"a","phone_number_type":"exotel"}"#),
        [
            "elevenlabs.dial.api_key: missing",
            "elevenlabs.dial.agent_phone_number_id: missing",
            "elevenlabs.dial.phone_number_type: neither twilio nor sip_trunk",
        ]
    );
    assert_eq!(
        dial(
            "livekit",
            r#"{"api_url":"https://name.livekit.example","api_key":"k","api_secret":"SECRET","sip_trunk_id":"t",
                "room_prefix":"calls-","ringing_timeout_seconds":180}"#
        ),
        Ok(true)
    );
    assert_eq!(
        problems(
            "livekit",
            r#"{"api_url":"wss://name.livekit.example","room_prefix":"a prefix that is longer than allowed","ringing_timeout_seconds":181}"#
        ),
        [
            "livekit.dial.api_url: not an https URL of a host alone, such as https://name.example.com",
            "livekit.dial.api_key: missing",
            "livekit.dial.api_secret: missing",
            "livekit.dial.sip_trunk_id: missing",
            "livekit.dial.room_prefix: longer than 32 bytes",
            "livekit.dial.ringing_timeout_seconds: not a whole number from 1 to 180",
        ]
    );
    let vapi = |url: &str| format!(r#"{{"api_key":"k","assistant_id":"a","phone_number_id":"p","api_url":"{url}"}}"#);
    let base_url = |url: &str| {
        let file = file(&format!(r#"{{"vapi":{{"keys":["k"],"dial":{}}}}}"#, vapi(url))).expect("valid");
        file.dial_accounts().config(Provider::Vapi).and_then(|config| config.base_url().map(str::to_owned))
    };
    assert_eq!(base_url("https://api.eu.vapi.ai").as_deref(), Some("https://api.eu.vapi.ai"));
    assert_eq!(base_url("https://api.vapi.ai"), None);
    for url in ["https://api.eu.vapi.ai.example.com", "http://api.eu.vapi.ai", "https://api.eu.vapi.ai/x"] {
        let message = "vapi.dial.api_url: not one of https://api.vapi.ai, https://api.eu.vapi.ai";
        assert_eq!(problems("vapi", &vapi(url)), [message]);
    }
    let discover = r#"{"livekit":{"keys":["k"],"discover":true,"dial":{"api_url":"https://name.livekit.example",
        "api_key":"k","api_secret":"s","sip_trunk_id":"t"}}}"#;
    let message = "livekit.discover: not for livekit, which lists no calls that have ended";
    assert_eq!(file(discover).map_err(|error| error.problems().to_vec()).expect_err("refused"), [message]);
    assert_eq!(problems("telnyx", r#""SECRET""#), ["telnyx.dial: not an object"]);
    assert_eq!(problems("generic", "{}"), ["generic.dial: not for generic, with which Switchhook places no calls"]);
}

#[test]
fn documents_that_are_no_object_are_refused() {
    assert_eq!(problems("{\"retell\": SECRET}"), ["not JSON at line 1, column 12"]);
    assert_eq!(problems("\"SECRET\""), ["not a JSON object"]);
    for (twice, problem) in [
        (r#"{"retell":{"keys":["a"]},"retell":{"keys":["b"]}}"#, "\"retell\" is named twice at line 1 column 33"),
        (r#"{"retell":{"keys":["a"],"keys":["b"]}}"#, "\"keys\" is named twice at line 1 column 30"),
    ] {
        assert_eq!(problems(twice), [format!("the field {problem}")]);
        // The last value of a stored document counts, so that its stack goes on.
        assert!(WebhookConfig::parse(&twice.replace("b", "b, as long as a key must be")).problems().is_empty());
    }
    assert_eq!(problems(r#"{"retell":"SECRET"}"#), ["retell: not an object"]);
    assert_eq!(problems(r#"{"retell":{}}"#), ["retell.keys: missing"]);
    let many = format!(r#"{{"retell":{{"keys":{:?}}}}}"#, ["k"; 9]);
    assert_eq!(problems(&many), ["retell.keys: more than 8"]);
}

#[test]
fn bad_urls_are_refused() {
    for url in [
        "",
        "example.com",
        "/path",
        "ftp://example.com",
        "https://",
        "https:///path",
        "https://example.com?x=1",
        "https://example.com#part",
        "https://exa mple.com",
    ] {
        let json = format!(r#"{{"twilio":{{"keys":["t"],"public_url":"{url}"}}}}"#);
        assert_eq!(
            problems(&json),
            ["twilio.public_url: not an http or https URL without query and fragment, for example https://example.com"],
            "{url}"
        );
    }
}

/// The path is added to the URL. With the path in both, providers would post to an address that does not exist.
#[test]
fn public_url_with_the_path_of_webhooks_is_refused() {
    for provider in ["twilio", "telnyx"] {
        let key = if provider == "telnyx" { "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=" } else { "t" };
        for path in ["/webhooks", "/webhooks/", "/prod/webhooks", "/webhooks/NAME", "/webhooks/NAME/inbound/"] {
            let path = path.replace("NAME", provider);
            let json = format!(r#"{{"{provider}":{{"keys":["{key}"],"public_url":"https://example.com{path}"}}}}"#);
            assert_eq!(
                problems(&json),
                [format!(
                    "{provider}.public_url: ends with {}, and /webhooks/{provider} is added to it: write only the start of the URL, \
                     for example https://example.com",
                    path.trim_start_matches("/prod").trim_end_matches('/')
                )],
            );
        }
        let other = format!(r#"{{"{provider}":{{"keys":["{key}"],"public_url":"https://example.com/my-webhooks"}}}}"#);
        assert!(file(&other).is_ok());
    }
}

#[test]
fn providers_share_the_dialers_in_the_proportion_of_their_rates() {
    // 10 calls per second keep 25 dialers busy.
    let rates: DialRates = "retell=8,twilio=2".parse().unwrap();
    let intervals = |dialers| {
        [Provider::Retell, Provider::Twilio].map(|provider| rates.interval(provider, dialers).unwrap().as_millis())
    };
    assert_eq!((intervals(1_000), intervals(25), intervals(10)), ([128, 515], [128, 515], [322, 1_288]));
    assert_eq!(rates.interval(Provider::Vapi, 50), None);
    let wanted = ["", "retell=1", "retell=8,twilio=2", "*=1", "*=200"]
        .map(|text| text.parse::<DialRates>().unwrap().dialers_wanted());
    assert_eq!(wanted, [0, 3, 25, 25, 1_000]);
}

#[test]
fn sources_are_allowed_by_address_block() {
    let config = |json: &str| {
        file(&format!(r#"{{"generic":{json}}}"#)).unwrap().webhook_keys().config(Provider::Generic).cloned().unwrap()
    };
    let allows = |config: &WebhookConfig, source: &str| config.allows(source.parse().unwrap());

    let anywhere = config(r#"{"keys":["g"]}"#);
    assert!(allows(&anywhere, "192.0.2.1"));

    let somewhere = config(r#"{"keys":["g"],"allowed_sources":["10.0.0.0/8","2001:db8::1"]}"#);
    assert!(allows(&somewhere, "10.1.2.3"));
    assert!(allows(&somewhere, "::ffff:10.1.2.3"));
    assert!(allows(&somewhere, "2001:db8::1"));
    assert!(!allows(&somewhere, "11.1.2.3"));
    assert!(!allows(&somewhere, "2001:db8::2"));
}

#[test]
fn questions_are_answered_by_a_fixed_text_and_perhaps_by_a_url() {
    let parse = |provider: &str, question: &str| {
        let url = "https://example.com";
        file(&format!(r#"{{"{provider}":{{"keys":["k"],"public_url":"{url}","question":{question}}}}}"#))
    };
    for (provider, good) in [
        ("retell", r#"{"answer":{"call_inbound":{"override_agent_id":"a"}}}"#),
        ("vapi", r#"{"answer":{"assistantId":"a"},"url":"https://example.com/ask?x=1","key":"SECRET"}"#),
        ("twilio", r#"{"answer":"<Response/>","url":"http://localhost:4000/ask","key":"SECRET"}"#),
    ] {
        let config = parse(provider, good).unwrap();
        let config = config.webhook_keys().config(provider.parse().unwrap()).cloned().unwrap();
        assert!(config.question().is_some(), "{provider}");
        assert!(!format!("{:?}", config.question()).contains("SECRET"));
    }
    for (provider, bad, problem) in [
        ("retell", "7", "retell.question: not an object"),
        ("retell", "{}", "retell.question.answer: missing: it is the answer if the URL gives none in time"),
        ("vapi", r#"{"answer":"<a/>"}"#, "vapi.question.answer: not an object: it is sent as JSON"),
        (
            "twilio",
            r#"{"answer":{}}"#,
            "twilio.question.answer: not a text of TwiML, which begins with < and has at most 64 KB",
        ),
        (
            "retell",
            r#"{"answer":{},"url":"http://example.com","key":"k"}"#,
            "retell.question.url: not https: only an address of this machine may be http",
        ),
        ("retell", r#"{"answer":{},"url":"https://example.com"}"#, "retell.question.key: missing"),
        ("retell", r#"{"answer":{},"key":"k"}"#, "retell.question.key: needs url: it signs what is sent there"),
        ("retell", r#"{"answer":{},"x":1}"#, "retell.question.\"x\": unknown field: known are answer, url, key"),
        ("elevenlabs", r#"{"answer":{}}"#, "elevenlabs.question: not for elevenlabs, which asks none"),
    ] {
        assert_eq!(parse(provider, bad).unwrap_err().problems(), [problem], "{bad}");
    }
}

#[test]
fn debug_hides_keys_and_the_password_of_the_url() {
    let providers = file(
        r#"{"twilio":{"keys":["SECRET"],"public_url":"https://user:SECRET@example.com",
                "dial":{"account_sid":"SECRET","auth_token":"SECRET","twiml_url":"https://SECRET.example"}},
                "retell":{"keys":["SECRET"],"dial":{"api_key":"SECRET"}}}"#,
    )
    .unwrap();
    assert!(!format!("{providers:?}").contains("SECRET"));
}

const FILE: &str = r#"{
    "retell": {"keys": ["a key that is as long as it must be"], "discover": true, "dial": {"api_key": "SECRET SECRET SECRET"}},
    "twilio": {"keys": ["a key that is as long as it must be"], "public_url": "https://example.com", "shared_keys": [{"id": "1", "key": "a key that is as long as it must be"}],
        "dial": {"account_sid": "AC1", "auth_token": "SECRET SECRET SECRET", "twiml_url": "https://x.example"}},
    "vapi": {"keys": ["a key that is as long as it must be"], "signature": {"mode": "shared_secret"}},
    "generic": {"keys": ["a key that is as long as it must be"], "window_seconds": 60, "allowed_sources": ["::1"]}}"#;

#[test]
fn file_is_stored_as_two_halves_that_hold_no_more_than_their_readers_use() {
    let file = ProvidersFile::from_json(FILE).unwrap();
    let (keys, accounts) = (Value::from(file.webhook_keys_document()), Value::from(file.dial_accounts_document()));
    assert!(!keys.to_string().contains("SECRET"));
    assert_eq!(
        accounts,
        json!({
            "retell": {"discover": true, "dial": {"api_key": "SECRET SECRET SECRET"}},
            "twilio": {"public_url": "https://example.com",
                "dial": {"account_sid": "AC1", "auth_token": "SECRET SECRET SECRET", "twiml_url": "https://x.example"}},
        })
    );
    // Both are read from their secrets without a problem, and name the providers of the file.
    let (keys, accounts) = (WebhookConfig::parse(&keys.to_string()), AccountConfig::parse(&accounts.to_string()));
    assert_eq!((keys.problems(), accounts.problems()), (&[][..], &[][..]));
    let named = [Provider::Retell, Provider::Twilio, Provider::Vapi, Provider::Generic];
    assert_eq!(configured(&keys), named);
    assert_eq!(configured(&accounts), [Provider::Retell, Provider::Twilio]);
    assert!(accounts.config(Provider::Retell).unwrap().discovers());
    assert_eq!(
        accounts.config(Provider::Twilio).unwrap().webhook_url().as_deref(),
        Some("https://example.com/webhooks/twilio")
    );
}

fn configured<C: SecretHalf>(entries: &Entries<C>) -> Vec<Provider> {
    Provider::ALL.into_iter().filter(|provider| entries.config(*provider).is_some()).collect()
}

#[test]
fn half_in_the_wrong_secret_is_named() {
    let keys = WebhookConfig::parse(FILE);
    assert_eq!(
        keys.problems(),
        [
            "retell.dial: belongs in the secret of the dial accounts",
            "retell.discover: belongs in the secret of the dial accounts",
            "twilio.dial: belongs in the secret of the dial accounts",
        ]
    );
    assert_eq!(keys.disabled(), [Provider::Retell, Provider::Twilio]);
    let accounts = AccountConfig::parse(FILE);
    assert_eq!(
        accounts.problems(),
        [
            "generic.keys: belongs in the secret of the webhook keys",
            "generic.window_seconds: belongs in the secret of the webhook keys",
            "generic.allowed_sources: belongs in the secret of the webhook keys",
            "generic.dial: not for generic, with which Switchhook places no calls",
            "retell.keys: belongs in the secret of the webhook keys",
            "twilio.keys: belongs in the secret of the webhook keys",
            "twilio.shared_keys: belongs in the secret of the webhook keys",
            "vapi.keys: belongs in the secret of the webhook keys",
            "vapi.signature: belongs in the secret of the webhook keys",
            "vapi.dial: missing",
        ]
    );
    assert_eq!(configured(&accounts), []);
}

#[test]
fn wrong_entry_disables_its_provider_alone() {
    let keys = WebhookConfig::parse(
        r#"{"retell": {"keys": [" SECRET"]}, "generic": {"keys": ["a key that is as long as it must be"]}}"#,
    );
    assert_eq!(keys.problems(), ["retell.keys[0]: the key begins or ends with white space"]);
    assert_eq!((configured(&keys), keys.disabled()), (vec![Provider::Generic], vec![Provider::Retell]));
    assert!(matches!(keys.entry(Provider::Vapi), Entry::Unnamed));

    // The older version has the entry of the disabled provider. It adds none that was removed.
    let older = WebhookConfig::parse(
        r#"{"retell": {"keys": ["a key that is as long as it must be"]}, "vapi": {"keys": ["a key that is as long as it must be"]}}"#,
    );
    let repaired = keys.clone().or_from(&older);
    assert_eq!((configured(&repaired), repaired.disabled()), (vec![Provider::Retell, Provider::Generic], vec![]));
    // A provider that the older version does not name stays disabled: its webhooks must not be answered 404.
    assert_eq!(keys.or_from(&WebhookConfig::parse("{}")).disabled(), [Provider::Retell]);
}

#[test]
fn unknown_name_may_stand_for_any_provider_without_an_entry() {
    let keys = WebhookConfig::parse(
        r#"{"retel": {"keys": ["SECRET"]}, "generic": {"keys": ["a key that is as long as it must be"]}}"#,
    );
    assert_eq!(
        keys.problems(),
        [
            r#"unknown provider "retel": known are retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, daily, bland, signalwire, generic, and accounts of them such as twilio-eu, and names such as x-acme, whose entries describe the provider"#
        ]
    );
    assert_eq!(configured(&keys), [Provider::Generic]);
    assert_eq!(keys.disabled().len(), Provider::ALL.len() - 1);

    let keys = keys.or_from(&WebhookConfig::parse(r#"{"retell": {"keys": ["a key that is as long as it must be"]}}"#));
    assert_eq!((configured(&keys), keys.disabled()), (vec![Provider::Retell, Provider::Generic], vec![]));
    assert!(matches!(keys.entry(Provider::Vapi), Entry::Unnamed));
}

#[test]
fn text_that_is_no_object_disables_every_provider_that_no_older_version_has() {
    for json in ["", "{\"retell\": SECRET}", "[]", "null"] {
        let keys = WebhookConfig::parse(json);
        assert_eq!((configured(&keys), keys.disabled().len()), (vec![], Provider::ALL.len()), "{json}");
        assert_eq!(keys.problems().len(), 1, "{json}");
        let keys =
            keys.or_from(&WebhookConfig::parse(r#"{"retell": {"keys": ["a key that is as long as it must be"]}}"#));
        assert_eq!(configured(&keys), [Provider::Retell], "{json}");
        assert_eq!(keys.disabled().len(), Provider::ALL.len() - 1, "{json}");
        assert!(keys.needs_older() && matches!(keys.entry("x-acme".parse().unwrap()), Entry::Disabled), "{json}");
    }
    assert_eq!(WebhookConfig::parse("{}").problems(), [] as [&str; 0]);
}

#[test]
fn dial_rates_are_read_and_written() {
    let rates: DialRates = " twilio=0.5, retell=1 ".parse().unwrap();
    assert_eq!(rates.pacing(Provider::Twilio), Pacing::new(0.5));
    assert_eq!(rates.pacing(Provider::Vapi), None);
    assert_eq!(rates.to_string(), "retell=1,twilio=0.5");
    let limited: DialRates = "telnyx = 200 / 1000, vapi=5/20".parse().unwrap();
    let calls_max = |provider| limited.pacing(provider).and_then(Pacing::calls_max);
    assert_eq!((calls_max(Provider::Telnyx), calls_max(Provider::Vapi)), (Some(1_000), Some(20)));
    assert_eq!(limited.to_string(), "vapi=5/20,telnyx=200/1000");
    assert_eq!("".parse(), Ok(DialRates::default()));

    let others: DialRates = "*=2/10, vapi=5".parse().unwrap();
    for provider in Provider::ALL {
        let calls_max = others.pacing(provider).map(|pacing| (pacing.per_second(), pacing.calls_max()));
        let expected = if provider == Provider::Vapi { (5.0, None) } else { (2.0, Some(10)) };
        let expected = crate::api::api_url(provider).map(|_| expected);
        assert_eq!(calls_max, expected, "{provider}");
    }
    for (text, problem) in [
        (
            "retell",
            "\"retell\" is not of the form provider=calls per second or provider=calls per second/calls at the same time",
        ),
        (
            "x=1",
            "unknown provider \"x\": known are retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, daily, bland, signalwire, generic, and accounts of them such as twilio-eu",
        ),
        ("generic=1", "Switchhook places no calls with generic"),
        ("retell=0", "the rate of retell is not a number from 0.1 to 200"),
        ("retell=fast", "the rate of retell is not a number from 0.1 to 200"),
        ("retell=201/5", "the rate of retell is not a number from 0.1 to 200"),
        ("retell=1/0", "the limit on the calls of retell at the same time is not a whole number of at least 1"),
        ("retell=1/2/3", "the limit on the calls of retell at the same time is not a whole number of at least 1"),
        ("retell=1,retell=2", "retell has two rates"),
        ("*=1,retell=1,*=1", "* has two rates"),
        ("*=0", "the rate of * is not a number from 0.1 to 200"),
    ] {
        let error: DialRatesError = text.parse::<DialRates>().unwrap_err();
        assert_eq!(error.to_string(), problem);
    }
}

#[test]
fn short_keys_are_refused() {
    let problems =
        |json: &str| ProvidersFile::from_json(json).map_err(|error| error.problems().to_vec()).expect_err("refused");
    assert_eq!(
        problems(
            r#"{"retell": {"keys": ["15 characters.."], "dial": {"api_key": "15 characters.."}},
                "twilio": {"keys": ["16 characters..."], "public_url": "https://example.com",
                    "shared_keys": [{"id": "1", "key": "short"}]},
                "vapi": {"keys": ["MTUgY2hhcmFjdGVycy4u"], "signature": {"base64_keys": true}},
                "telnyx": {"keys": ["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
                    "dial": {"api_key": "KEY0", "connection_id": "1"}},
                "daily": {"keys": ["MTUgY2hhcmFjdGVycy4u", "MTYgY2hhcmFjdGVycy4uLg=="]},
                "generic": {"keys": ["a key of 31 characters, not 32.", "a key of 32 characters, and more"]}}"#
        ),
        [
            "daily.keys[0]: the key is the base64 of fewer than 16 bytes",
            "generic.keys[0]: the key is shorter than 32 characters",
            "retell.keys[0]: the key is shorter than 16 characters",
            "retell.dial.api_key: the key is shorter than 16 characters",
            "telnyx.dial.api_key: the key is shorter than 16 characters",
            "twilio.shared_keys[0].key: the key is shorter than 16 characters",
            "vapi.keys[0]: the key is the base64 of fewer than 16 bytes",
        ]
    );
    // A stored key that is too short disables its provider.
    assert_eq!(WebhookConfig::parse(r#"{"retell": {"keys": ["short"]}}"#).disabled(), [Provider::Retell]);
}

#[test]
fn keys_of_daily_are_base64() {
    for key in ["the text of a secret", "c2l4dGVlbiBieXRlcyBvciBtb3J", "c2l4dGVlbiBieXRlcyBvciBtb3J_", "===="] {
        let json = json!({"daily": {"keys": [key]}}).to_string();
        assert_eq!(problems(&json), ["daily.keys[0]: not base64, as the hmac of a webhook of Daily is"], "{key}");
    }
    let json = r#"{"daily": {"keys": ["ZGFpbHk="], "dial": {"api_key": "KEY0"}, "public_url": "https://example.com"}}"#;
    assert_eq!(problems(json), ["daily.dial: not for daily, with which Switchhook places no calls"]);
}

#[test]
fn every_problem_of_a_configured_provider_is_named_by_its_path() {
    let json = r#"{
        "x-Acme": {},
        "x-none": {},
        "x-a": {
            "keys": ["v1,whsec_SECRET"], "dial": {"api_key": "SECRET"}, "reports_outcome": "SECRET",
            "signature": {"scheme": "standard_webhooks", "header": "SECRET"},
            "events": {"event_id": ["/id", "SECRET"], "type": "$.SECRET", "time": 7,
                       "rules": [{"when": {}, "event": "SECRET"}, {"event": "completed", "has": [], "implies": ["completed", "SECRET"]}, 7,
                                 {"when": {"type": "SECRET", "status": 1, "/a": null}, "has": ["type", "SECRET", 7], "event": "busy", "then": 1}]}
        },
        "x-b": {
            "keys": ["k"], "window_seconds": 300,
            "signature": {"scheme": "hmac", "header": "not a header", "timestamp_unit": "seconds", "signed": "{timestamp}{body}",
                          "algorithm": "md5", "encoding": "SECRET", "key_encoding": "SECRET", "separator": "SECRET"},
            "events": {}
        },
        "x-c": {
            "keys": ["k"],
            "signature": {"scheme": "hmac", "header": "h", "id_header": "i", "timestamp_header": "t", "timestamp_field": "t",
                          "signature_field": "v=1", "separator": "comma", "signed": "{id}{timestamp}.{body}"},
            "events": {"rules": [{"when": {"/a": 1}, "has": ["type", "/b"], "event": "completed"}]}
        },
        "x-d": {
            "keys": ["k"], "signature": {"scheme": "standard_webhooks"},
            "events": {"entity_id": "/a", "data": {"SE CRET": "/b", "c": "SECRET", "d": "/d"}}
        },
        "x-f": {
            "keys": ["k"], "signature": {"scheme": "standard_webhooks"},
            "events": {"entity_id": "/a", "starts_at": "b", "booked_call": {"providers": ["retell", "SECRET"], "from": "SECRET",
                       "before_minutes": 0, "window": "UTC 9-18", "agent": "SECRET"},
                       "rules": [{"when": {"/a": 1}, "event": "booked", "implies": []}, {"event": "booking_canceled"}]}
        },
        "x-g": {
            "keys": ["k"], "signature": {"scheme": "standard_webhooks"},
            "events": {"starts_at": "/s", "replaces": "/r", "booked_call": {}, "rules": [{"when": {"/a": 1}, "event": "booking_canceled"}]}
        },
        "x-e": {
            "keys": ["k"], "signature": {"scheme": "standard_webhooks"},
            "events": {"entity_id": "a", "data": {}, "rules": [{"event": "received", "implies": []}, {"event": "busy"}]}
        }}"#;
    let problems = problems(json);
    insta::assert_snapshot!(problems.join("\n"), @r#"
    unknown provider "x-Acme": known are retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, daily, bland, signalwire, generic, and accounts of them such as twilio-eu, and names such as x-acme, whose entries describe the provider
    x-a.signature."header": unknown field: known are scheme, version
    x-a.events.event_id[1]: not a JSON pointer such as /data/id
    x-a.events.type: not a JSON pointer such as /data/id
    x-a.events.time: not a text
    x-a.events.rules[0].when: not an object with one to 8 conditions
    x-a.events.rules[0].event: none of initiated, ringing, in_progress, voicemail_detected, user_declined, user_confirmed, no_answer, canceled, busy, failed, completed, retry_scheduled, received, booked, booking_canceled
    x-a.events.rules[1].when: missing: the values that make the rule apply
    x-a.events.rules[1].has: not a list of one to 8 names, such as /data/id
    x-a.events.rules[1].implies[0]: the event itself
    x-a.events.rules[1].implies[1]: none of initiated, ringing, in_progress, voicemail_detected, user_declined, user_confirmed, no_answer, canceled, busy, failed, completed, retry_scheduled
    x-a.events.rules[2]: not an object
    x-a.events.rules[3].when."/a": not a text, a number, true or false
    x-a.events.rules[3].when."status": neither type nor a JSON pointer such as /data/status
    x-a.events.rules[3].has[1]: neither type nor a JSON pointer such as /data/status
    x-a.events.rules[3].has[2]: neither type nor a JSON pointer such as /data/status
    x-a.events.rules[3]."then": unknown field: known are when, has, event, implies
    x-a.events.call_id: missing: an event of a call needs call_id, appointment_id or switchhook_call_id
    x-a.reports_outcome: neither true nor false
    x-a.keys[0]: starts with v1, which is no part of the key: leave it out, so that the key starts with whsec_
    x-a."dial": unknown field: known are keys, signature, events, reports_outcome, window_seconds, public_url, allowed_sources
    x-b.signature.algorithm: none of sha256, sha512, sha1
    x-b.signature.key_encoding: none of text, base64, whsec
    x-b.signature.header: not the name of a header
    x-b.signature.separator: neither comma nor space
    x-b.signature.timestamp_unit: needs timestamp_header or timestamp_field
    x-b.signature.signed: it needs {timestamp} once if timestamp_header or timestamp_field is set, and no {timestamp} otherwise
    x-b.signature.encoding: neither hex nor base64
    x-b.window_seconds: not for a signature without timestamp
    x-c.signature.separator: not beside signature_field, whose fields are always separated by commas
    x-c.signature.timestamp_field: not beside timestamp_header
    x-c.signature.signature_field: not the name of a field, such as v1
    x-c.signature.signed: it needs a text, such as a dot, between {id} and the next placeholder
    x-c.events.rules[0].has[0]: needs events.type, the place of the type
    x-c.events.call_id: missing: an event of a call needs call_id, appointment_id or switchhook_call_id
    x-d.events.data."SE CRET": not a name of at most 32 letters, digits and underscores
    x-d.events.data.c: not a JSON pointer such as /data/id
    x-d.events.entity_id: needs a rule with the event received
    x-d.events.data: needs a rule with the event received
    x-d.keys[0]: not whsec_ followed by base64
    x-e.events.entity_id: not a JSON pointer such as /data/id
    x-e.events.data: not an object with one to 16 JSON pointers
    x-e.events.rules[0].implies: not beside the event received
    x-e.events.rules[1].when: missing: the values that make the rule apply
    x-e.events.call_id: missing: an event of a call needs call_id, appointment_id or switchhook_call_id
    x-e.keys[0]: not whsec_ followed by base64
    x-f.events.starts_at: not a JSON pointer such as /data/id
    x-f.events.booked_call.providers: not a list of different providers that place calls: retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, bland, signalwire, and accounts of them
    x-f.events.booked_call.from: neither an E.164 number such as +14155550123 nor a SIP address
    x-f.events.booked_call.before_minutes: not a whole number from 1 to 86400
    x-f.events.booked_call.window: the hours of the window are not like 09:00-18:00, between 00:00 and 24:00
    x-f.events.booked_call."agent": unknown field: known are providers, from, before_minutes, window
    x-f.events.rules[0].implies: not beside the event booked
    x-f.events.rules[1].when: missing: the values that make the rule apply
    x-f.events.to: missing: the events of bookings need it
    x-f.events.time: missing: the events of bookings need it
    x-f.keys[0]: not whsec_ followed by base64
    x-g.events.booked_call.providers: not a list of different providers that place calls: retell, twilio, vapi, telnyx, elevenlabs, plivo, vonage, livekit, bland, signalwire, and accounts of them
    x-g.events.booked_call.from: missing
    x-g.events.booked_call.before_minutes: missing: the time from the call to the start of the appointment
    x-g.events.entity_id: missing: the events of bookings need it
    x-g.events.time: missing: the events of bookings need it
    x-g.events.starts_at: needs a rule with the event booked
    x-g.events.replaces: needs a rule with the event booked
    x-g.events.booked_call: needs a rule with the event booked
    x-g.keys[0]: not whsec_ followed by base64
    x-none.signature: missing: there is no default, because it decides whose webhooks are accepted
    x-none.events: missing: the places of the ids, and the rules
    x-none.keys: missing
    "#);
    assert!(!problems.join("").contains("SECRET"), "{problems:?}");
}
