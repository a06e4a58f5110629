//! Secrets of the providers: a typo, a missing secret, a rotation, and each half broken. The functions read both halves from
//! the local Secrets Manager, as they do on AWS.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use http::StatusCode;
use insta::assert_snapshot;
use serde_json::{Value, json};
use switchhook_domain::Provider;
use switchhook_local::fake::Mode;
use switchhook_local::{CloudOptions, DIAL_ACCOUNTS_SECRET, WEBHOOK_KEYS_SECRET};
use switchhook_tests::{KEY, MINUTE, World, all_providers, down, generic, options};

use crate::outbound::{call_request, create};

/// Time after which every running function has read its secret again.
const REREAD: Duration = Duration::from_secs(301);

/// A running stack that reads its secrets.
fn world() -> World {
    let secret = all_providers();
    let dial_rates = "retell=100,vapi=100".parse().unwrap();
    let mut world = World::with_options(CloudOptions { reads_secrets: true, dial_rates, ..options(&secret) });
    world.start();
    world
}

fn put(world: &World, secret: &str, text: &str) {
    world.cloud.services().secrets_manager().put(secret, text);
}

/// The text of the webhook keys with another entry of one provider.
fn keys_with(provider: &str, entry: Value) -> String {
    let mut keys = options(&all_providers()).providers.webhook_keys_document();
    keys.insert(provider.to_owned(), entry);
    Value::from(keys).to_string()
}

/// Posts a webhook of a generic sender, and returns the status of the answer.
async fn post(world: &World, key: &str, event_id: &str) -> StatusCode {
    let body = generic("c1", event_id, "RINGING", 1);
    world.post_signed(Provider::Generic, key, "", body.as_bytes()).await.0
}

/// Posts a webhook of Retell, and returns the status of the answer.
async fn post_retell(world: &World) -> StatusCode {
    world.post(Provider::Retell, switchhook_tests::sample("retell/call_ended")).await.0
}

#[tokio::test(start_paused = true)]
async fn rotated_key_is_accepted_within_ten_seconds_and_the_old_one_until_it_is_removed() {
    let world = world();
    let rotated = "the next key of the tests, which is long enough";
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK);
    put(&world, WEBHOOK_KEYS_SECRET, &keys_with("generic", json!({"keys": [rotated, KEY]})));
    // The keys were read less than ten seconds ago, and are not read again because of a signature.
    assert_eq!(post(&world, rotated, "e2").await, StatusCode::UNAUTHORIZED);
    world.wait(Duration::from_secs(11)).await;
    assert_eq!(post(&world, rotated, "e2").await, StatusCode::OK);
    assert_eq!(post(&world, KEY, "e3").await, StatusCode::OK);
    put(&world, WEBHOOK_KEYS_SECRET, &keys_with("generic", json!({"keys": [rotated]})));
    world.wait(REREAD).await;
    assert_eq!(post(&world, KEY, "e4").await, StatusCode::UNAUTHORIZED);
}

/// The entry names the header of the signature, and a webhook without that header has no signature.
#[tokio::test(start_paused = true)]
async fn changed_signature_is_accepted_within_ten_seconds() {
    let world = world();
    let body = switchhook_tests::sample("vapi/status_ringing").as_bytes();
    let signed = || world.signed(Provider::Vapi, KEY, "", body, world.now());
    let with_new_header = || {
        let mut request = signed();
        let signature = request.headers_mut().remove("x-signature").unwrap();
        request.headers_mut().insert("x-vapi-signature", signature);
        request
    };
    assert_eq!(world.send(signed()).await.0, StatusCode::OK);
    let signature = json!({"header": "x-vapi-signature"});
    put(&world, WEBHOOK_KEYS_SECRET, &keys_with("vapi", json!({"keys": [KEY], "signature": signature})));
    // The secret was read less than ten seconds ago.
    assert_eq!(world.send(with_new_header()).await.0, StatusCode::UNAUTHORIZED);
    world.wait(Duration::from_secs(11)).await;
    assert_eq!(world.send(with_new_header()).await.0, StatusCode::OK);
    assert_eq!(world.send(signed()).await.0, StatusCode::UNAUTHORIZED);
}

/// Many providers do not repeat a webhook that is answered 404.
#[tokio::test(start_paused = true)]
async fn added_provider_is_accepted_within_ten_seconds() {
    let world = world();
    let mut keys = options(&all_providers()).providers.webhook_keys_document();
    keys.remove("generic").unwrap();
    put(&world, WEBHOOK_KEYS_SECRET, &Value::from(keys).to_string());
    assert_eq!(post_retell(&world).await, StatusCode::OK);
    put(&world, WEBHOOK_KEYS_SECRET, &keys_with("generic", json!({"keys": [KEY]})));
    // The secret was read less than ten seconds ago.
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::NOT_FOUND);
    world.wait(Duration::from_secs(11)).await;
    let body = generic("c1", "e1", "RINGING", 1);
    let mut request = world.signed(Provider::Generic, KEY, "", body.as_bytes(), world.now());
    *request.uri_mut() = "/webhooks/generic/inbound".parse().unwrap();
    assert_eq!(world.send(request).await.0, StatusCode::OK);
    assert_eq!(post(&world, KEY, "e2").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn added_source_address_is_allowed_within_ten_seconds() {
    let world = world();
    let allowing = |sources: Value| keys_with("generic", json!({"keys": [KEY], "allowed_sources": sources}));
    put(&world, WEBHOOK_KEYS_SECRET, &allowing(json!(["10.0.0.0/8"])));
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::FORBIDDEN);
    // The local gateway reports 127.0.0.1 as the source.
    put(&world, WEBHOOK_KEYS_SECRET, &allowing(json!(["10.0.0.0/8", "127.0.0.1"])));
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::FORBIDDEN);
    world.wait(Duration::from_secs(11)).await;
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn invented_names_have_the_secret_read_once_in_ten_seconds() {
    let world = world();
    assert_eq!(post_retell(&world).await, StatusCode::OK);
    world.wait(Duration::from_secs(11)).await;
    let reads = |world: &World| world.requests().remove("GetSecretValue").unwrap_or_default();
    reads(&world);
    for name in ["x-invented", "retell-invented", "x-other"] {
        let body = generic("c1", "e1", "RINGING", 1);
        let mut request = world.signed(Provider::Generic, KEY, "", body.as_bytes(), world.now());
        *request.uri_mut() = format!("/webhooks/{name}").parse().unwrap();
        assert_eq!(world.send(request).await.0, StatusCode::NOT_FOUND, "{name}");
    }
    assert_eq!(reads(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn fake_provider_signs_with_the_key_that_is_stored_now() {
    let world = world();
    let called_with = async |world: &World| {
        let call_id = create(world, &call_request("confirms")).await;
        world.wait(MINUTE * 10).await;
        crate::outbound::call_state(world, &call_id).await
    };
    let expected = "job COMPLETED, appointment Confirmed, attempts [completed]";
    assert_eq!(called_with(&world).await, expected);
    let rotated = keys_with("retell", json!({"keys": ["the next key of retell, which is long enough"]}));
    put(&world, WEBHOOK_KEYS_SECRET, &rotated);
    world.wait(REREAD).await;
    assert_eq!(called_with(&world).await, expected);
    assert_eq!(world.logged("rejected"), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn typo_leaves_running_functions_with_the_old_entry() {
    let world = world();
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK);
    for text in
        [keys_with("generic", json!({"key": [KEY]})), keys_with("generick", json!({"keys": [KEY]})), "{".to_owned()]
    {
        put(&world, WEBHOOK_KEYS_SECRET, &text);
        world.wait(REREAD).await;
        assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK, "{text}");
        assert_eq!(post_retell(&world).await, StatusCode::OK, "{text}");
    }
    assert!(!world.logged("secret_refresh_failed").is_empty());
    assert!(world.logged("provider_disabled").is_empty());
    assert!(!world.log_text().contains(KEY));
}

#[tokio::test(start_paused = true)]
async fn function_that_starts_takes_a_broken_entry_from_the_version_before() {
    let texts =
        [keys_with("generic", json!({"key": [KEY]})), keys_with("generick", json!({"keys": [KEY]})), "{".to_owned()];
    for text in texts {
        let world = world();
        // No function has read the secret yet.
        put(&world, WEBHOOK_KEYS_SECRET, &text);
        assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK, "{text}");
        assert_eq!(post_retell(&world).await, StatusCode::OK, "{text}");
        assert!(!world.logged("secret_refresh_failed").is_empty() && world.logged("provider_disabled").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn webhooks_of_a_provider_without_a_right_entry_are_refused_for_now_and_those_of_others_accepted() {
    let world = world();
    let typo = keys_with("generic", json!({"key": [KEY]}));
    put(&world, WEBHOOK_KEYS_SECRET, &typo);
    put(&world, WEBHOOK_KEYS_SECRET, &typo);
    let body = generic("c1", "e1", "RINGING", 1);
    let (status, answer) = world.post(Provider::Generic, &body).await;
    assert_eq!((status, &answer["error"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("provider_disabled")));
    assert_eq!(post_retell(&world).await, StatusCode::OK);
    let disabled = world.logged("provider_disabled");
    assert!(disabled.iter().any(|line| line["function"] == "secret" && line["provider"] == "generic"), "{disabled:?}");
    assert!(disabled.iter().any(|line| line["function"] == "ingress"), "{disabled:?}");

    // The correction is used within half a minute, and the webhook that the provider sends again is accepted.
    put(&world, WEBHOOK_KEYS_SECRET, &keys_with("generic", json!({"keys": [KEY]})));
    world.wait(Duration::from_secs(31)).await;
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn missing_secret_loses_no_webhook() {
    let world = world();
    world.cloud.services().secrets_manager().delete(WEBHOOK_KEYS_SECRET);
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::SERVICE_UNAVAILABLE);
    put(&world, WEBHOOK_KEYS_SECRET, &keys_with("generic", json!({"keys": [KEY]})));
    world.wait(Duration::from_secs(31)).await;
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK);

    world.cloud.services().secrets_manager().delete(WEBHOOK_KEYS_SECRET);
    world.wait(REREAD).await;
    assert_eq!(post(&world, KEY, "e2").await, StatusCode::OK, "a running function keeps what it has read");
}

#[tokio::test(start_paused = true)]
async fn provider_that_the_secret_does_not_name_is_unknown() {
    let world = world();
    put(&world, WEBHOOK_KEYS_SECRET, "{}");
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::NOT_FOUND);
    assert!(world.logged("secret_refresh_failed").is_empty());
}

/// Creates a call of Retell while this text is the current and the previous version of the dial accounts. Returns the causes
/// with which the dialer gave it back in ten minutes, and checks that it is placed once the account is right.
async fn causes_with_accounts(text: &str) -> Vec<Value> {
    let world = world();
    put(&world, DIAL_ACCOUNTS_SECRET, text);
    put(&world, DIAL_ACCOUNTS_SECRET, text);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE * 10).await;
    assert_eq!(world.cloud.fake().requests(), 0);
    assert_eq!(world.call(&call_id).await.job.as_str(), "PENDING");
    // The other half is another secret.
    assert_eq!(post(&world, KEY, "e1").await, StatusCode::OK);
    let withdrawn = world.logged("dial_withdrawn");
    assert!(withdrawn.iter().all(|line| line["no_account"] == 1), "{withdrawn:?}");
    assert!(withdrawn.len() < 10, "the circuit opens: {}", withdrawn.len());

    let accounts = options(&all_providers()).providers.dial_accounts_document();
    put(&world, DIAL_ACCOUNTS_SECRET, &Value::from(accounts).to_string());
    world.wait(MINUTE * 40).await;
    let call = world.call(&call_id).await;
    assert_eq!((call.job.as_str(), call.attempts().len()), ("COMPLETED", 1));
    withdrawn.into_iter().map(|line| line["cause"].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn call_of_a_provider_whose_account_is_wrong_or_missing_waits_for_it() {
    let wrong_half = json!({"retell": {"keys": [KEY]}}).to_string();
    for (text, cause) in [
        ("{}", "not_configured"),
        (r#"{"retell": {"dial": {}}}"#, "account_disabled"),
        (&wrong_half, "account_disabled"),
        ("{", "account_disabled"),
    ] {
        let causes = causes_with_accounts(text).await;
        assert!(!causes.is_empty() && causes.iter().all(|found| found == cause), "{text}: {causes:?}");
    }
}

/// Another dialer may have the accounts, and the provider works.
#[tokio::test(start_paused = true)]
async fn dialer_that_cannot_read_its_secret_opens_no_circuit() {
    let world = world();
    world.set_fault_hook(|request| {
        (request.operation == "GetSecretValue" && request.sender == Some("dialer")).then(down)
    });
    let mut call_ids = Vec::new();
    for _ in 0..5 {
        call_ids.push(create(&world, &call_request("confirms")).await);
    }
    world.wait(MINUTE * 3).await;
    let released = world.logged("dial_released");
    assert!(released.iter().all(|line| line["cause"] == "accounts_unread"), "{released:?}");
    assert!((10..=35).contains(&released.len()), "each call is tried about once a minute: {}", released.len());
    assert_eq!((world.logged("circuit_open").len(), world.logged("dial_withdrawn").len()), (0, 0));
    world.clear_faults();
    // The secret is read again after 30 seconds, and the calls are due after a minute at most.
    world.wait(MINUTE * 3).await;
    assert_eq!(world.cloud.fake().dials().len(), call_ids.len());
    for call_id in call_ids {
        assert_eq!(world.call(&call_id).await.attempts().len(), 1);
    }
}

/// Creates a call whose dial gets no answer, and puts other dial accounts before it counts as not found. Returns the number of
/// dials that were asked for, and the states of the attempts.
async fn dial_in_doubt_before(change: impl FnOnce(&mut Value)) -> String {
    let world = world();
    let fake = world.cloud.fake();
    fake.set_mode(Mode::Unresponsive);
    let call_id = create(&world, &call_request("confirms")).await;
    world.wait(MINUTE).await;
    let mut accounts = Value::from(options(&all_providers()).providers.dial_accounts_document());
    change(&mut accounts["retell"]);
    put(&world, DIAL_ACCOUNTS_SECRET, &accounts.to_string());
    world.wait(REREAD).await;
    fake.set_mode(Mode::Normal);
    world.wait(MINUTE * 30).await;
    let state = crate::outbound::call_state(&world, &call_id).await;
    format!("{} dials, {state}", fake.dials().len())
}

#[tokio::test(start_paused = true)]
async fn account_that_did_not_make_a_dial_cannot_say_that_nobody_was_called() {
    let other_key =
        |account: &mut Value| account["dial"]["api_key"] = json!("the key of another account, which is long enough");
    assert_snapshot!(dial_in_doubt_before(other_key).await, @"0 dials, job FAILED, appointment Inconclusive, attempts [inconclusive]");
    let other_agent = |account: &mut Value| account["dial"]["agent_id"] = json!("another_agent");
    assert_snapshot!(dial_in_doubt_before(other_agent).await, @"1 dials, job COMPLETED, appointment Confirmed, attempts [completed]");
}
