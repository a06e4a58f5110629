//! Further accounts of a provider: their webhooks and requests are those of the provider, under names of their own.

use serde_json::{Value, json};
use switchhook_domain::{AttemptKey, Origin, Provider};
use switchhook_providers::{
    AccountConfig, CallSearch, LookupAnswer, Period, Reading, SearchStep, can_decide, content_hash, dial_api_request,
    discovery_api_request, read, repeats_safely_for, samples,
};

use crate::api::{CONFIG, DIALLED, NOW, config, job, shown, with_private_key};
use crate::samples::{verified, verified_as};

/// Further account of a provider.
fn account(provider: Provider) -> Provider {
    format!("{provider}-eu").parse().unwrap()
}

/// Entry of the provider in [`CONFIG`], as the entry of its further account.
fn config_of_account(provider: Provider) -> AccountConfig {
    let document: Value = serde_json::from_str(&with_private_key(CONFIG)).unwrap();
    let document = json!({account(provider).as_str(): document[provider.as_str()]});
    let file = crate::providers_file(&document.to_string()).unwrap();
    file.dial_accounts().config(account(provider)).cloned().unwrap()
}

/// Text about the account, with the names of the provider in place of its own.
fn as_provider(text: &str, provider: Provider) -> String {
    let name = format!("{:?}", account(provider));
    text.replace(&name, &format!("{provider:?}")).replace(account(provider).as_str(), provider.as_str())
}

#[test]
fn webhooks_of_an_account_mean_the_same_under_its_name() {
    for (name, body) in samples() {
        let provider: Provider = name.split_once('/').unwrap().0.parse().unwrap();
        let own = read(&verified(name), NOW);
        let of_account = read(&verified_as(account(provider), name), NOW);
        let own_prefix = format!("{}:", account(provider));
        assert!(of_account.event_id().as_str().starts_with(&own_prefix), "{name}");
        if let Reading::Event(event) = &of_account {
            assert_eq!(event.origin, Origin::Provider(account(provider)), "{name}");
            let ids = [Some(event.call_id.as_str()), event.attempt.as_ref().map(AttemptKey::as_str)];
            let of_vendor = ids.into_iter().flatten().find(|id| id.starts_with(&format!("{provider}:")));
            assert_eq!(of_vendor, None, "{name}");
        }
        assert_eq!(as_provider(&format!("{of_account:?}"), provider), format!("{own:?}"), "{name}");
        assert_eq!(content_hash(account(provider), body.as_bytes()), content_hash(provider, body.as_bytes()), "{name}");
    }
}

#[test]
fn requests_of_an_account_are_those_of_the_provider_with_its_own_address_for_webhooks() {
    let job = job();
    let period = Period { from: NOW.minus(std::time::Duration::from_secs(3_600)), until: NOW };
    for provider in DIALLED {
        let (of_account, own) = (config_of_account(provider), config(provider));
        let dial = |provider, config: &_| shown(&dial_api_request(provider, config, &job.request()).unwrap());
        let dialled = dial(account(provider), &of_account);
        assert_eq!(as_provider(&dialled, provider), dial(provider, &own));
        assert_eq!(
            dialled.matches("/webhooks/").count(),
            dialled.matches(&format!("/webhooks/{}", account(provider))).count()
        );
        let search = |provider, config| {
            let search = CallSearch::start(provider, config, job.lookup(Some("c1"))).unwrap();
            shown(search.request())
        };
        assert_eq!(search(account(provider), &of_account), search(provider, &own));
        let discovery =
            |provider, config| discovery_api_request(provider, config, period, None).map(|request| shown(&request));
        assert_eq!(discovery(account(provider), &of_account), discovery(provider, &own));
        assert_eq!(repeats_safely_for(account(provider)), repeats_safely_for(provider));
        assert_eq!(can_decide(account(provider)), can_decide(provider));
    }
}

#[test]
fn an_ending_that_a_lookup_finds_has_the_name_of_the_account() {
    let config = config_of_account(Provider::Retell);
    let job = job();
    let search = CallSearch::start(account(Provider::Retell), &config, job.lookup(Some("c1"))).unwrap();
    let body = json!({"call_id": "c1", "call_type": "phone_call", "call_status": "ended",
        "disconnection_reason": "user_hangup", "start_timestamp": 1_760_962_500_000_i64, "end_timestamp": 1_760_962_560_000_i64});
    let SearchStep::Answer(LookupAnswer::Ended { webhook, event, .. }) =
        search.respond(200, body.to_string().as_bytes(), NOW)
    else {
        panic!("the call has ended")
    };
    assert_eq!(webhook.provider(), account(Provider::Retell));
    assert!(event.event_id.as_str().starts_with("retell-eu:c1:"), "{}", event.event_id);
}

#[test]
fn entry_of_an_account_has_the_rules_of_its_provider() {
    for (entry, problem) in [
        (json!({"twilio-eu": {"keys": ["k"]}}), "twilio-eu.public_url: missing: twilio-eu signs the URL"),
        (json!({"telnyx-eu": {"keys": ["k"]}}), "telnyx-eu.keys[0]: "),
        (json!({"retell-eu": {"keys": ["k"], "shared_keys": []}}), "retell-eu.\"shared_keys\": unknown field"),
        (json!({"daily-eu": {"keys": ["aw=="], "dial": {}}}), "daily-eu.dial: not for daily-eu, with which"),
        (json!({"bland-eu": {"keys": ["k"], "dial": {"api_key": "a", "task": "t"}}}), "bland-eu.public_url: missing"),
        (
            json!({"twilio-eu": {"keys": ["k"], "public_url": "https://a.example/webhooks/twilio-eu"}}),
            "twilio-eu.public_url: ends with /webhooks/twilio-eu",
        ),
    ] {
        let problems = crate::providers_file(&entry.to_string()).unwrap_err().problems().join("\n");
        assert!(problems.contains(problem), "{problems}");
    }
}
