//! Holds `infra/openapi.yaml` to the code: its operations, and the names of everything that can be named. Lines are all
//! that is read of it, so that no crate is needed that knows YAML; it is written accordingly. What the answers hold is
//! for a client to check.

use std::collections::BTreeSet;

use switchhook_aws::problem::ProblemKind;
use switchhook_domain::{
    AppointmentStatus, CALL_ATTEMPTS_MAX, Disposition, EventKind, INCONCLUSIVE, Lifecycle, Outcome, Provider, State,
    StopReason,
};

use crate::body::can_place_calls;
use crate::list;
use crate::route::{OTHER_ROUTES, ROUTES};

const DOCUMENT: &str = include_str!("../../../infra/openapi.yaml");

/// The lines that belong to the line `key:` with this indentation, without it.
fn section(indent: usize, key: &str) -> Vec<&'static str> {
    let head = format!("{}{key}:", " ".repeat(indent));
    let lines: Vec<&str> = DOCUMENT.lines().skip_while(|line| *line != head).skip(1).collect();
    assert!(!lines.is_empty(), "there is no {key}");
    let indented = |line: &&str| line.is_empty() || line.len() - line.trim_start().len() > indent;
    lines.into_iter().take_while(indented).collect()
}

/// The values of the enumeration that the schema is.
fn values(schema: &str) -> BTreeSet<String> {
    let lines = section(4, schema);
    let at =
        lines.iter().position(|line| line.starts_with("      enum:")).unwrap_or_else(|| panic!("{schema} has no enum"));
    let inline = lines[at].trim().trim_start_matches("enum:").trim();
    let list = match inline.strip_prefix('[') {
        Some(list) => list.strip_suffix(']').unwrap().split(", ").map(str::to_owned).collect::<Vec<_>>(),
        None => lines[at + 1..].iter().filter_map(|line| line.strip_prefix("        - ")).map(str::to_owned).collect(),
    };
    let set: BTreeSet<String> = list.iter().cloned().collect();
    assert_eq!(set.len(), list.len(), "{schema} names something twice");
    set
}

fn names(names: impl IntoIterator<Item = impl Into<String>>) -> BTreeSet<String> {
    names.into_iter().map(Into::into).collect()
}

#[test]
fn document_has_every_operation_and_no_other() {
    let mut path = "";
    let mut found = BTreeSet::new();
    for line in section(0, "paths") {
        if let Some(text) = line.strip_prefix("  /") {
            path = text.strip_suffix(':').unwrap();
        } else if let Some(method) =
            line.strip_prefix("    ").filter(|rest| !rest.starts_with([' ', '-']) && *rest != "parameters:")
        {
            found.insert((method.strip_suffix(':').unwrap().to_uppercase(), format!("/{path}")));
        }
    }
    let here = ROUTES.iter().map(|(method, path, _)| (*method, *path));
    let served = here.chain(OTHER_ROUTES).map(|(method, path)| (method.to_owned(), path.to_owned())).collect();
    assert_eq!(found, served);
}

#[test]
fn document_names_what_the_code_names() {
    let of = |state: &[Lifecycle]| names(state.iter().map(|state| state.label()).chain([INCONCLUSIVE]));
    assert_eq!(values("Lifecycle"), of(Lifecycle::ALL));
    assert_eq!(values("Outcome"), names(Outcome::ALL.iter().map(|state| state.label()).chain([INCONCLUSIVE])));
    assert_eq!(values("AppointmentStatus"), names(AppointmentStatus::ALL.map(AppointmentStatus::as_str)));
    assert_eq!(values("EventKind"), names(EventKind::ALL.map(EventKind::as_str)));
    assert_eq!(values("Disposition"), names(Disposition::ALL.map(Disposition::as_str)));
    assert_eq!(values("JobState"), names(list::job_names()));
    assert_eq!(values("Provider"), names(Provider::ALL.map(Provider::as_str)));
    let dialled = Provider::ALL.into_iter().filter(|provider| can_place_calls(*provider));
    assert_eq!(values("DialingProvider"), names(dialled.map(Provider::as_str)));
    let problems = ProblemKind::ALL.map(|kind| format!("urn:switchhook:problem:{}", kind.code()));
    assert_eq!(values("ProblemType"), names(problems));
    let stopped =
        [StopReason::Canceled, StopReason::DoNotCall, StopReason::UnknownTimeZone, StopReason::ProviderRefused];
    assert_eq!(values("StopReason"), names(stopped.map(StopReason::as_str)));
}

/// Reads the number behind `name:` in the lines of a field.
fn limit(schema: &str, field: &str, name: &str) -> usize {
    let lines = section(4, schema);
    let field = format!("        {field}:");
    let of_field =
        lines.iter().skip_while(|line| **line != field).skip(1).take_while(|line| line.starts_with("          "));
    let value = of_field.filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": ")).next();
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{schema}.{field} has no {name}"))
}

#[test]
fn document_has_the_limits_of_the_code() {
    use crate::body::{
        APPOINTMENT_ID_BYTES_MAX, DELAY_MAX_SECONDS_MAX, DELAY_SECONDS_MAX, METADATA_ENTRIES_MAX,
        METADATA_NAME_BYTES_MAX, TIME_ZONE_BYTES_MAX,
    };
    assert_eq!(limit("NewCall", "appointment_id", "maxLength"), APPOINTMENT_ID_BYTES_MAX);
    assert_eq!(limit("NewCall", "metadata", "maxProperties"), METADATA_ENTRIES_MAX);
    assert_eq!(limit("NewCall", "metadata", "maxLength"), METADATA_NAME_BYTES_MAX);
    assert_eq!(limit("CallingWindow", "time_zone", "maxLength"), TIME_ZONE_BYTES_MAX);
    assert_eq!(limit("RetryOptions", "attempts_max", "maximum"), CALL_ATTEMPTS_MAX);
    assert_eq!(limit("RetryOptions", "delay_seconds", "maximum"), DELAY_SECONDS_MAX as usize);
    assert_eq!(limit("RetryOptions", "delay_max_seconds", "maximum"), DELAY_MAX_SECONDS_MAX as usize);
}
