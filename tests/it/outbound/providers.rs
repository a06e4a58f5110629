//! Calls through every provider that places calls: each is reported by its webhooks, or found by the provider's lookups. None of
//! them looks drifted.

use std::time::Duration;

use serde_json::{Value, json};
use switchhook_aws::calls::{Alias, AliasOutcome};
use switchhook_domain::{AttemptKey, CallId, EventKind, Provider};
use switchhook_local::fake::{DeliveryFaults, Mode};
use switchhook_tests::{INBOX_RETENTION, MINUTE, PUBLIC_URL, World, all_providers};

use super::{call_request, call_state, create, wait_for_the_end};

/// Providers that place calls.
pub(crate) const PROVIDERS: [Provider; 10] = [
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

/// Key that verifies the webhooks of further accounts.
pub(crate) const ACCOUNT_KEY: &str = "a key of further accounts for tests";

/// Private key of Vonage's application.
const PRIVATE_KEY: &str = include_str!("../../../shared/providers/fixtures/vonage/private_key.pem");

/// A secret with an account of every provider.
pub(crate) fn all_accounts() -> Value {
    let mut secret = all_providers();
    secret["twilio"]["dial"] = json!({
        "account_sid": "AC00000000000000000000000000000001", "auth_token": "a token of Twilio for tests",
        "twiml_url": "https://app.example.com/twiml",
    });
    secret["vapi"]["dial"] = json!({"api_key": "a key of Vapi for tests", "assistant_id": "a", "phone_number_id": "p"});
    secret["telnyx"]["dial"] = json!({"api_key": "a key of Telnyx for tests", "connection_id": "c"});
    secret["elevenlabs"]["dial"] =
        json!({"api_key": "a key of ElevenLabs for tests", "agent_id": "a", "agent_phone_number_id": "p"});
    secret["plivo"]["dial"] = json!({
        "auth_id": "MA1", "auth_token": "a token of Plivo for tests", "answer_url": "https://app.example.com/answer",
    });
    secret["vonage"]["public_url"] = json!(PUBLIC_URL);
    secret["vonage"]["dial"] = json!({
        "application_id": "a", "private_key": PRIVATE_KEY, "answer_url": "https://app.example.com/answer",
    });
    secret["livekit"]["dial"] = json!({
        "api_url": "https://name.livekit.example", "api_key": "k", "api_secret": "a secret of LiveKit for tests",
        "sip_trunk_id": "t",
    });
    secret["bland"]["public_url"] = json!(PUBLIC_URL);
    secret["bland"]["dial"] = json!({"api_key": "a key of Bland for tests", "task": "Ask whether the person comes."});
    secret["signalwire"]["dial"] = json!({
        "api_url": "https://example.signalwire.com", "project_id": "p1", "api_token": "a token of SignalWire for tests",
        "cxml_url": "https://app.example.com/cxml",
    });
    secret["telnyx"]["public_url"] = json!(PUBLIC_URL);
    secret
}

/// Further account of a provider.
pub(crate) fn account_of(provider: Provider) -> Provider {
    format!("{provider}-eu").parse().unwrap()
}

/// A secret with an account and a further account of every provider. The further one is verified by another key, except Telnyx's.
pub(crate) fn two_accounts_each() -> Value {
    let mut secret = all_accounts();
    for provider in PROVIDERS {
        let mut entry = secret[provider.as_str()].clone();
        if provider != Provider::Telnyx {
            entry["keys"] = json!([ACCOUNT_KEY]);
        }
        secret[account_of(provider).as_str()] = entry;
    }
    secret
}

/// Places a call with the provider for each behaviour. Checks that each rang one phone, and that the drift checks agree with
/// each call, while it goes on and when it is over. Returns their states after 40 minutes.
pub(super) async fn place<const N: usize>(
    provider: Provider,
    behaviours: [&str; N],
    delivery_faults: DeliveryFaults,
) -> [String; N] {
    let world = World::with_secret(&two_accounts_each());
    let fake = world.cloud.fake();
    fake.set_delivery_faults(delivery_faults);
    if provider.is_named() {
        world.cloud.schedule().await.unwrap().unwrap();
    }
    let mut calls = Vec::new();
    for behaviour in behaviours {
        let mut request = call_request(behaviour);
        request["provider"] = json!(provider.as_str());
        request["retry"] = json!({"attempts_max": 1});
        calls.push(create(&world, &request).await);
    }
    // The local cloud has no key that signs for Telnyx, so the test posts these webhooks.
    fake.hold(provider.vendor() == Provider::Telnyx);
    let (mut checked, mut lookups) = (0, 0);
    for minute in 1..=40 {
        world.wait(MINUTE).await;
        for webhook in fake.held() {
            world.accept(provider, &webhook.body).await;
            fake.drop_held(&[webhook.number]);
        }
        // At the first check, webhooks may still be on their way. At the others, lookups have found what no webhook reported.
        if [7, 25, 40].contains(&minute) {
            let report = world.cloud.check_drift().await.unwrap().unwrap();
            (checked, lookups) = (checked + report.checked, lookups + report.lookups);
        }
    }
    assert!(checked >= N as u64 && lookups >= 1, "{provider}: {checked} calls are looked at by {lookups} requests");
    assert_eq!(world.logged("drift_found").len(), 0, "{provider}");
    let dials = fake.dials();
    assert!(dials.iter().all(|dial| dial.provider == provider), "{dials:?}");
    assert_eq!((dials.len(), fake.duplicate_dials()), (N, 0), "{provider}");
    let mut states = behaviours.map(str::to_owned);
    for (call_id, state) in calls.iter().zip(&mut states) {
        *state = call_state(&world, call_id).await;
    }
    states
}

pub(super) const BUSY: &str = "job FAILED, appointment NoAnswer, attempts [busy]";

/// Twilio, Telnyx, Plivo, Vonage, LiveKit, Daily and SignalWire do not report what the person said.
pub(super) const fn confirmed_at(provider: Provider) -> &'static str {
    match provider {
        Provider::Twilio
        | Provider::Telnyx
        | Provider::Plivo
        | Provider::Vonage
        | Provider::LiveKit
        | Provider::Daily
        | Provider::SignalWire => "job COMPLETED, appointment Connected, attempts [completed]",
        Provider::Retell
        | Provider::Vapi
        | Provider::ElevenLabs
        | Provider::Bland
        | Provider::Generic
        | Provider::Named(_) => "job COMPLETED, appointment Confirmed, attempts [completed]",
    }
}

#[tokio::test(start_paused = true)]
async fn call_is_reported_by_the_webhooks_of_its_provider() {
    for provider in PROVIDERS {
        let states = place(provider, ["confirms", "busy", "no_answer", "fails"], DeliveryFaults::NONE).await;
        let expected = [
            confirmed_at(provider),
            BUSY,
            "job FAILED, appointment NoAnswer, attempts [no_answer]",
            "job FAILED, appointment NoAnswer, attempts [failed]",
        ];
        assert_eq!(states, expected, "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn call_without_webhooks_is_found_by_the_lookups_of_its_provider() {
    for provider in PROVIDERS {
        let states = place(provider, ["confirms", "response_lost", "busy"], DeliveryFaults::ALL_LOST).await;
        let confirmed = match provider {
            // A call that is over has left its room, and nothing else tells how it ended.
            Provider::LiveKit => "job FAILED, appointment Inconclusive, attempts [inconclusive]",
            Provider::Retell
            | Provider::Twilio
            | Provider::Vapi
            | Provider::Telnyx
            | Provider::ElevenLabs
            | Provider::Plivo
            | Provider::Vonage
            | Provider::Daily
            | Provider::Bland
            | Provider::SignalWire
            | Provider::Generic
            | Provider::Named(_) => confirmed_at(provider),
        };
        let response_lost = match provider {
            // They show none of our ids, so they cannot tell which of the three calls between the same numbers this one is.
            Provider::Plivo | Provider::Vonage | Provider::SignalWire => {
                "job FAILED, appointment Inconclusive, attempts [inconclusive]"
            }
            Provider::Retell
            | Provider::Twilio
            | Provider::Vapi
            | Provider::Telnyx
            | Provider::ElevenLabs
            | Provider::LiveKit
            | Provider::Daily
            | Provider::Bland
            | Provider::Generic
            | Provider::Named(_) => confirmed,
        };
        let busy = if provider == Provider::LiveKit { confirmed } else { BUSY };
        assert_eq!(states, [confirmed, response_lost, busy], "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_of_the_configuration_decides_for_webhooks_and_lookups_alike() {
    let mut secret = all_accounts();
    // The opposite of what the built-in fields say.
    secret["retell"]["decision"] = json!({
        "pointer": "/call/call_analysis/custom_analysis_data/outcome", "confirmed": ["declined"], "declined": ["confirmed"],
    });
    for delivery_faults in [DeliveryFaults::NONE, DeliveryFaults::ALL_LOST] {
        let world = World::with_secret(&secret);
        world.cloud.fake().set_delivery_faults(delivery_faults);
        let call_id = create(&world, &call_request("confirms")).await;
        wait_for_the_end(&world, &call_id).await;
        assert_eq!(call_state(&world, &call_id).await, "job COMPLETED, appointment Declined, attempts [completed]");
        let call = world.call(&call_id).await;
        let decided = call.history.iter().find(|entry| entry.event.kind == EventKind::UserDeclined).unwrap();
        // Read again without the rule, the stored event has the same decision.
        let event = world.inbox.get_normalized(&decided.source_event_id).await.unwrap().unwrap();
        assert!(event.call_events.iter().any(|event| event.kind == EventKind::UserDeclined), "{event:?}");
        assert_eq!(world.logged("drift_found").len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_dial_never_takes_the_call_of_another_dial_to_the_same_person() {
    for provider in [Provider::Twilio, Provider::Plivo, Provider::Vonage, Provider::SignalWire] {
        let world = World::with_secret(&all_accounts());
        let fake = world.cloud.fake();
        fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
        let mut request = call_request("response_lost");
        request["provider"] = json!(provider.as_str());
        request["retry"] = json!({"attempts_max": 1});
        let call_id = create(&world, &request).await;
        world.wait(MINUTE / 3).await;
        // The provider's list shows one call between both numbers, and its id leads to another call.
        let from = CallId::new(format!("{provider}:{}", fake.dials()[0].provider_call_id));
        let alias = Alias { call_id: CallId::new("other"), attempt: AttemptKey::new("1") };
        let outcome = world.calls.write_alias(&from, &alias, INBOX_RETENTION, world.now()).await.unwrap();
        assert!(matches!(outcome, AliasOutcome::Leads { .. }), "{provider}");
        wait_for_the_end(&world, &call_id).await;
        let state = call_state(&world, &call_id).await;
        assert_eq!(state, "job FAILED, appointment Inconclusive, attempts [inconclusive]", "{provider}");
        assert_eq!(world.call(&call_id).await.attempt_records[0].provider_call_id, None, "{provider}");
        assert_eq!(fake.dials().len(), 1, "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_dial_never_takes_the_call_of_the_attempt_before() {
    for provider in [Provider::Twilio, Provider::Plivo, Provider::Vonage, Provider::SignalWire] {
        let world = World::with_secret(&all_accounts());
        let fake = world.cloud.fake();
        let mut request = call_request("busy");
        request["provider"] = json!(provider.as_str());
        request["retry"] = json!({"attempts_max": 2, "delay_seconds": 20, "delay_max_seconds": 20});
        let call_id = create(&world, &request).await;
        while world.call(&call_id).await.attempts().iter().all(|attempt| !attempt.has_ended()) {
            world.wait(Duration::from_secs(1)).await;
        }
        // The second attempt starts within a minute of the first. The provider gives no answer, and places no call.
        fake.set_mode_of(provider, Mode::Unresponsive);
        while world.call(&call_id).await.attempts().len() < 2 {
            world.wait(Duration::from_secs(1)).await;
        }
        world.wait(Duration::from_secs(10)).await;
        fake.set_mode_of(provider, Mode::Normal);
        let dials: Vec<_> = world.call(&call_id).await.attempt_records.iter().filter_map(|it| it.dialled_at).collect();
        assert!(dials[1].millis_since(dials[0]) < 60_000, "{provider}: {dials:?}");
        wait_for_the_end(&world, &call_id).await;
        let state = call_state(&world, &call_id).await;
        // Twilio's list of requests proves that the one call is the first attempt's. So the second was never placed, and is made again.
        let (expected, dials) = if provider == Provider::Twilio {
            ("job FAILED, appointment NoAnswer, attempts [busy, busy]", 2)
        } else {
            ("job FAILED, appointment Inconclusive, attempts [busy, inconclusive]", 1)
        };
        assert_eq!((state.as_str(), fake.dials().len()), (expected, dials), "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_dial_is_found_by_its_numbers_and_time() {
    for provider in [Provider::Twilio, Provider::Plivo, Provider::Vonage, Provider::SignalWire] {
        let states = place(provider, ["response_lost"], DeliveryFaults::ALL_LOST).await;
        assert_eq!(states, [confirmed_at(provider)]);
    }
}
