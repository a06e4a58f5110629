use std::time::Duration;

use switchhook_domain::Provider;

use super::{ProviderConfig, Providers};

fn problems(json: &str) -> Vec<String> {
    Providers::from_json(json).map_err(|error| error.problems().to_vec()).expect_err("refused")
}

#[test]
fn the_documented_shape_is_read() {
    let providers = Providers::from_json(
        r#"{"retell":{"keys":["new","old"]},
            "twilio":{"keys":["t"],"public_url":"https://user:pass@example.com:8443/prod/"},
            "vapi":{"keys":["v"]},
            "telnyx":{"keys":["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
                      "dial":{"api_key":"KEY0","connection_id":"281"}},
            "generic":{"keys":["g"],"window_seconds":60,"allowed_sources":["10.0.0.0/8","::1","192.0.2.7"]}}"#,
    )
    .unwrap();

    let retell = providers.config(Provider::Retell).unwrap();
    assert_eq!(retell.keys().len(), 2);
    assert_eq!(retell.window(), Some(Duration::from_secs(300)));
    assert_eq!(retell.public_url(), None);

    let twilio = providers.config(Provider::Twilio).unwrap();
    assert_eq!(twilio.public_url(), Some("https://user:pass@example.com:8443/prod"));
    assert_eq!(twilio.window(), None);

    let generic = providers.config(Provider::Generic).unwrap();
    assert_eq!(generic.window(), Some(Duration::from_secs(60)));
    assert_eq!(generic.allowed_sources().len(), 3);

    let telnyx = providers.config(Provider::Telnyx).unwrap();
    assert_eq!(telnyx.window(), Some(Duration::from_secs(300)));
    assert_eq!(telnyx.dial().map(|dial| dial.pacing().per_second()), Some(1.0));

    assert!(Provider::ALL.into_iter().all(|provider| providers.config(provider).is_some()));
}

#[test]
fn a_provider_that_is_left_out_is_not_configured() {
    let providers = Providers::from_json(r#"{"generic":{"keys":["g"]}}"#).unwrap();
    assert!(providers.config(Provider::Retell).is_none());
}

#[test]
fn every_problem_is_reported_at_once_and_no_value_is_shown() {
    let json = r#"{
        "generic":{"keys":["SECRET","  ","SECRET\n",7],"window_seconds":0,"allowed_sources":["SECRET","10.0.0.0/8"],"key":"SECRET"},
        "plivo":{"keys":["SECRET"]},
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
            "generic.\"key\": unknown field: known are keys, public_url, window_seconds, allowed_sources, dial, discover",
            "unknown provider \"plivo\": known are retell, twilio, vapi, telnyx, generic",
            "retell.keys: the list is empty",
            "retell.window_seconds: not a whole number from 1 to 86400",
            "retell.allowed_sources: the list is empty; leave it out to allow every source",
            "twilio.keys: not a list",
            "twilio.public_url: missing: twilio signs the URL that it posts to, for example https://example.com",
            "twilio.window_seconds: not for twilio, which signs no timestamp",
        ]
    );
    let error = Providers::from_json(json).expect_err("refused");
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
    assert!(Providers::from_json(&telnyx("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=")).is_ok());
}

#[test]
fn dialling_is_configured_per_provider() {
    let dial = |provider: &str, dial: &str| {
        let key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        let url = "https://example.com";
        let json = format!(r#"{{"{provider}":{{"keys":["{key}"],"public_url":"{url}","dial":{dial}}}}}"#);
        Providers::from_json(&json).map(|providers| {
            let config = providers.config(provider.parse().unwrap()).cloned().unwrap();
            config.dial().unwrap().pacing().per_second()
        })
    };
    for (provider, good) in [
        ("retell", r#"{"api_key":"SECRET","per_second":0.5}"#),
        ("retell", r#"{"api_key":"SECRET","agent_id":"agent_1","per_second":0.5}"#),
        (
            "twilio",
            r#"{"account_sid":"AC1","auth_token":"SECRET","twiml_url":"https://x.example/t?a=1","per_second":0.5}"#,
        ),
        (
            "twilio",
            r#"{"account_sid":"AC1","api_key_sid":"SK1","api_key_secret":"SECRET","twiml_url":"https://x.example",
                "machine_detection":true,"per_second":0.5}"#,
        ),
        ("vapi", r#"{"api_key":"SECRET","assistant_id":"a","phone_number_id":"p","per_second":0.5}"#),
        ("telnyx", r#"{"api_key":"SECRET","connection_id":"c","per_second":0.5}"#),
        (
            "telnyx",
            r#"{"api_key":"SECRET","connection_id":"c","assistant_id":"a","machine_detection":"premium","per_second":0.5}"#,
        ),
    ] {
        assert_eq!(dial(provider, good), Ok(0.5), "{good}");
    }
    let problems = |provider: &str, json: &str| {
        dial(provider, json).map_err(|error| error.problems().to_vec()).expect_err("refused")
    };
    assert_eq!(
        problems("retell", r#"{"api_key":"SECRET ","agent_id":7,"per_second":0,"agent":"SECRET"}"#),
        [
            "retell.dial.per_second: not a number from 0.1 to 100",
            "retell.dial.api_key: the key begins or ends with white space",
            "retell.dial.agent_id: not a text",
            "retell.dial.\"agent\": unknown field: known are api_key, agent_id, honor_internal_dnc, per_second",
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
            "twilio.dial.auth_token: not beside api_key_sid and api_key_secret",
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
        problems("telnyx", r#"{"connection_id":"","per_second":1000,"machine_detection":"maybe"}"#),
        [
            "telnyx.dial.per_second: not a number from 0.1 to 100",
            "telnyx.dial.api_key: missing",
            "telnyx.dial.connection_id: empty, or with white space around it",
            "telnyx.dial.machine_detection: not one of premium, premium_ios_call_screening_detection, detect, detect_beep, \
             detect_words, greeting_end",
        ]
    );
    assert_eq!(problems("telnyx", r#""SECRET""#), ["telnyx.dial: not an object"]);
    assert_eq!(problems("generic", "{}"), ["generic.dial: not for generic, which has no API"]);
}

#[test]
fn documents_that_are_no_object_are_refused() {
    assert_eq!(problems("{\"retell\": SECRET}"), ["not JSON at line 1, column 12"]);
    assert_eq!(problems("\"SECRET\""), ["not a JSON object"]);
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
            ["twilio.public_url: not an http or https URL without query and fragment"],
            "{url}"
        );
    }
}

#[test]
fn lanes_together_keep_the_rate_and_no_turn_is_far_off() {
    let config = |per_second: f64| {
        let json = format!(r#"{{"retell":{{"keys":["k"],"dial":{{"api_key":"a","per_second":{per_second}}}}}}}"#);
        Providers::from_json(&json).unwrap().config(Provider::Retell).unwrap().dial().unwrap().pacing()
    };
    let lanes_and_interval =
        |per_second: f64| (config(per_second).lanes(5), config(per_second).lane_interval(5).as_millis());
    assert_eq!(lanes_and_interval(0.1), (1, 10_000));
    assert_eq!(lanes_and_interval(0.5), (3, 6_000));
    assert_eq!(lanes_and_interval(1.0), (5, 5_000));
    assert_eq!(lanes_and_interval(100.0), (5, 50));
    let throughput = |per_second: f64, lanes_max| config(per_second).throughput(lanes_max);
    assert_eq!((throughput(0.1, 5), throughput(1.0, 5), throughput(100.0, 5)), (0.1, 1.0, 2.5));
    assert_eq!(throughput(100.0, 200), 100.0);
}

#[test]
fn sources_are_allowed_by_address_block() {
    let config = |json: &str| {
        Providers::from_json(&format!(r#"{{"generic":{json}}}"#)).unwrap().config(Provider::Generic).cloned().unwrap()
    };
    let allows = |config: &ProviderConfig, source: &str| config.allows(source.parse().unwrap());

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
fn debug_hides_keys_and_the_password_of_the_url() {
    let providers = Providers::from_json(
        r#"{"twilio":{"keys":["SECRET"],"public_url":"https://user:SECRET@example.com",
                "dial":{"account_sid":"SECRET","auth_token":"SECRET","twiml_url":"https://SECRET.example"}},
                "retell":{"keys":["SECRET"],"dial":{"api_key":"SECRET"}}}"#,
    )
    .unwrap();
    assert!(!format!("{providers:?}").contains("SECRET"));
}
