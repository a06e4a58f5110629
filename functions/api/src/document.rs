//! Tests that `infra/openapi.yaml` agrees with the code: operations, enumerations and limits. The shape of answers is checked by
//! the tests that read answers.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use switchhook_aws::problem::{Problem, ProblemKind};
use switchhook_domain::{
    APPOINTMENT_ID_BYTES_MAX, AppointmentStatus, CALL_ATTEMPTS_MAX, Disposition, EventKind, INCONCLUSIVE, JobState,
    Lifecycle, Outcome, Provider, State, StopReason,
};

use crate::body::can_place_calls;
use crate::response::RequestError;
use crate::route::{OTHER_ROUTES, ROUTES};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

fn document() -> Value {
    serde_norway::from_str(include_str!("../../../infra/openapi.yaml")).unwrap()
}

/// Values of an enumeration in `components/schemas`.
fn values(schema: &str) -> BTreeSet<String> {
    let document = document();
    let values = document["components"]["schemas"][schema]["enum"].as_array();
    let values = values.unwrap_or_else(|| panic!("{schema} has no enum"));
    let set: BTreeSet<String> = values.iter().map(|value| value.as_str().unwrap().to_owned()).collect();
    assert_eq!(set.len(), values.len(), "{schema} has a value twice");
    set
}

fn names(names: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

#[test]
fn document_has_every_operation_and_no_other() {
    let document = document();
    let mut found = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|key| METHODS.contains(&key.as_str()));
        found.extend(methods.map(|method| (method.to_uppercase(), path.clone())));
    }
    let own = ROUTES.iter().map(|(method, path, _)| (*method, *path));
    let served = own.chain(OTHER_ROUTES).map(|(method, path)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(found, served);
}

#[test]
fn document_names_what_the_code_names() {
    let labels = |state: &[Lifecycle]| names(state.iter().map(|state| state.label()).chain([INCONCLUSIVE]));
    assert_eq!(values("Lifecycle"), labels(Lifecycle::ALL));
    assert_eq!(values("Outcome"), names(Outcome::ALL.iter().map(|state| state.label()).chain([INCONCLUSIVE])));
    assert_eq!(values("AppointmentStatus"), names(AppointmentStatus::ALL.map(AppointmentStatus::as_str)));
    assert_eq!(values("EventKind"), names(EventKind::ALL.map(EventKind::as_str)));
    assert_eq!(values("Disposition"), names(Disposition::ALL.map(Disposition::as_str)));
    assert_eq!(values("JobState"), names(JobState::ALL.map(JobState::as_str)));
    assert_eq!(values("BuiltInProvider"), names(Provider::ALL.iter().map(Provider::as_str)));
    let dialing = Provider::ALL.iter().filter(|provider| can_place_calls(**provider));
    assert_eq!(values("DialingProvider"), names(dialing.clone().map(Provider::as_str)));
    let accounts = |providers: Vec<&str>| json!(format!("^({})-[a-z0-9]([a-z0-9-]*[a-z0-9])?$", providers.join("|")));
    let pattern = |name: &str| document()["components"]["schemas"][name]["pattern"].clone();
    assert_eq!(pattern("DialingAccount"), accounts(dialing.map(Provider::as_str).collect()));
    assert_eq!(pattern("ProviderAccount"), accounts(Provider::ALL.iter().map(Provider::as_str).collect()));
    let problems = ProblemKind::ALL.map(|kind| format!("urn:switchhook:problem:{}", kind.code()));
    assert_eq!(values("ProblemType"), names(problems));
    assert_eq!(values("StopReason"), names(StopReason::ALL.map(StopReason::as_str)));
}

#[test]
fn document_has_one_pattern_for_numbers() {
    let document = document();
    let number = json!({"$ref": "#/components/schemas/PhoneNumber"});
    assert_eq!(document["paths"]["/do-not-call"]["parameters"][0]["schema"], number);
    let properties = &document["components"]["schemas"]["NewCall"]["properties"];
    for name in ["from", "to"] {
        assert_eq!(properties[name]["$ref"], number["$ref"], "{name}");
    }
}

#[test]
fn document_has_the_problems_of_the_code_as_examples() {
    let responses = &document()["components"]["responses"];
    for (name, problem) in
        [("NotFound", RequestError::unknown_id().into_problem().0), ("Failed", Problem::storage_failure())]
    {
        assert_eq!(responses[name]["content"]["application/problem+json"]["example"], problem.to_json(), "{name}");
    }
}

/// A client that branches on `type` must know that these answers have none.
#[test]
fn document_has_the_failures_that_api_gateway_answers() {
    let document = document();
    let gateway = json!({"$ref": "#/components/schemas/GatewayMessage"});
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(key, _)| METHODS.contains(&key.as_str())) {
            let responses = &operation["responses"];
            assert_eq!(responses["500"]["$ref"], "#/components/responses/Failed", "{method} {path}");
            assert_eq!(responses["503"]["$ref"], "#/components/responses/Unavailable", "{method} {path}");
            let has_body = !operation["requestBody"].is_null();
            let too_large = &responses["413"]["content"]["application/json"]["schema"];
            assert_eq!(*too_large == gateway, has_body, "{method} {path}");
        }
    }
    for response in ["Failed", "Unavailable"] {
        let content = &document["components"]["responses"][response]["content"];
        assert_eq!(content["application/json"]["schema"], gateway, "{response}");
    }
}

/// Limit of a field, for example `maxLength`. `field` is a JSON pointer inside the properties of the schema.
fn limit(schema: &str, field: &str, name: &str) -> u64 {
    let document = document();
    let property = document["components"]["schemas"][schema]["properties"].pointer(&format!("/{field}"));
    let limit = property.and_then(|property| property[name].as_u64());
    limit.unwrap_or_else(|| panic!("{schema}.{field} has no {name}"))
}

#[test]
fn document_has_the_reserved_names_of_metadata() {
    let document = document();
    let names = document.pointer("/components/schemas/NewCall/properties/metadata/propertyNames/pattern").unwrap();
    for reserved in ["(?!switchhook_)", "(?!appointment_id$)", "(?!bodySHA256$)"] {
        assert!(names.as_str().unwrap().contains(reserved), "{names}");
    }
}

#[test]
fn document_has_the_limits_of_the_code() {
    use crate::body::{
        CLOSED_DATES_MAX, DELAY_MAX_SECONDS_MAX, DELAY_SECONDS_MAX, METADATA_ENTRIES_MAX, METADATA_NAME_BYTES_MAX,
        TIME_ZONE_BYTES_MAX,
    };
    let dialing = Provider::ALL.into_iter().filter(|provider| can_place_calls(*provider)).count();
    let providers = document()["components"]["schemas"]["DialingProviders"]["maxItems"].as_u64();
    assert_eq!(providers, Some(dialing as u64));
    assert_eq!(limit("NewCalls", "calls", "maxItems"), crate::body::BATCH_CALLS_MAX as u64);
    assert_eq!(limit("NewCall", "appointment_id", "maxLength"), APPOINTMENT_ID_BYTES_MAX as u64);
    assert_eq!(limit("NewCall", "metadata", "maxProperties"), METADATA_ENTRIES_MAX as u64);
    assert_eq!(limit("NewCall", "metadata/propertyNames", "maxLength"), METADATA_NAME_BYTES_MAX as u64);
    assert_eq!(limit("CallingWindow", "time_zone", "maxLength"), TIME_ZONE_BYTES_MAX as u64);
    assert_eq!(limit("CallingWindow", "closed_dates", "maxItems"), CLOSED_DATES_MAX as u64);
    assert_eq!(limit("RetryOptions", "attempts_max", "maximum"), CALL_ATTEMPTS_MAX as u64);
    assert_eq!(limit("RetryOptions", "delay_seconds", "maximum"), u64::from(DELAY_SECONDS_MAX));
    assert_eq!(limit("RetryOptions", "delay_max_seconds", "maximum"), u64::from(DELAY_MAX_SECONDS_MAX));
}
