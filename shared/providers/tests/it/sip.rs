//! Calls to SIP addresses: the requests that place them, and searches by numbers, which prove nothing about them.

use serde_json::{Value, json};
use switchhook_domain::{Direction, PhoneNumber, Provider};
use switchhook_providers::{LookupAnswer, dial_api_request};

use crate::api::{Job, NOW, alive, config, job, undecided};
use crate::reading::{into_event, read_body};

const ADDRESS: &str = "sip:desk@example.com";

fn to_address() -> Job {
    Job { to: PhoneNumber::new(ADDRESS), ..job() }
}

fn dialled(provider: Provider) -> Value {
    let request = dial_api_request(provider, &config(provider), &to_address().request()).unwrap();
    serde_json::from_slice(&request.body).unwrap()
}

#[test]
fn address_is_in_the_field_that_the_provider_has_for_it() {
    assert_eq!(dialled(Provider::Vapi)["customer"], json!({"sipUri": ADDRESS}));
    assert_eq!(dialled(Provider::Vonage)["to"], json!([{"type": "sip", "uri": ADDRESS}]));
}

#[test]
fn vapi_names_an_address_in_its_webhooks() {
    let call = json!({"id": "c", "type": "outboundPhoneCall", "customer": {"sipUri": ADDRESS}});
    let body = json!({"message": {"type": "status-update", "status": "ringing", "call": call}}).to_string();
    let event = into_event(read_body(Provider::Vapi, "", body.as_bytes()));
    assert_eq!((event.direction, event.to), (Some(Direction::Outbound), Some(PhoneNumber::new(ADDRESS))));
}

/// Answer of a search that gets nothing but empty lists.
fn answer_of_empty_lists(provider: Provider, job: &Job) -> LookupAnswer {
    // The lists of Twilio, of Telnyx, and of Plivo: of queued and live calls, and of ended ones.
    let empty = json!({"calls": [], "data": [], "objects": [], "meta": {"next": null}});
    job.search(provider, None, NOW, std::iter::repeat((200, empty))).1.unwrap()
}

#[test]
fn empty_lists_prove_nothing_about_an_address() {
    let from_address = Job { from: PhoneNumber::new(ADDRESS), ..job() };
    for provider in [Provider::Plivo, Provider::Telnyx, Provider::Twilio] {
        assert_eq!(answer_of_empty_lists(provider, &job()), LookupAnswer::NotFound, "{provider}");
        for job in [&to_address(), &from_address] {
            assert_eq!(answer_of_empty_lists(provider, job), undecided("sip_address"), "{provider}");
        }
    }
}

#[test]
fn vonage_finds_a_call_to_an_address() {
    let call = json!({
        "uuid": "u1", "status": "ringing", "direction": "outbound", "start_time": "2025-10-20 12:13:56",
        "from": {"type": "phone", "number": "442079460018"}, "to": {"type": "sip", "uri": ADDRESS},
    });
    let list = json!({"count": 1, "_embedded": {"calls": [call]}});
    let (_, answer) = to_address().search(Provider::Vonage, None, NOW, [(200, list)]);
    assert_eq!(answer, Some(alive("u1")));
}
