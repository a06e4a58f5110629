//! Webhooks of a sender that uses the generic provider: one event for each fact.
//!
//! An event also states what its word implies. `ANSWERED` implies that the phone rang, and `USER_CONFIRMED` implies that
//! the call was answered. `ENDED` implies no answer, because a call may end unanswered. So a lost event leaves a gap, and
//! Switchhook may fill it only as far as the words allow.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{
    Correlation, Ending, Fact, Fields, Millis, Provider, Report, SECOND, Script, Statement, object, reporting_delay,
};

/// Form in which the sender posts the events of one call.
struct EventStyle {
    upper_case: bool,
    /// False if events carry no times. Then only the kinds of the events tell their order.
    has_times: bool,
    /// Index of the first event of an attempt that carries the provider's id of the attempt. 0 if all events do.
    provider_call_id_from: usize,
    /// Field that carries the number of the attempt. `None` if no event carries it.
    number_field: Option<NumberField>,
    /// Index of the first event of the first attempt that carries the appointment id. 0 if all events do.
    appointment_from: usize,
    /// True if the sender adds a `completed` when the line is free again, after whatever ending was reported before.
    always_adds_completed: bool,
}

/// Field of an event that carries the number of the attempt.
#[derive(Clone, Copy)]
enum NumberField {
    /// `meta.attempt`.
    Meta,
    /// `data.attempt`.
    Data,
    /// `attempt`.
    Event,
}

/// One event of the sender.
struct GenericEvent {
    attempt: usize,
    fact: Fact,
    at: Millis,
    has_provider_call_id: bool,
    /// True if the event carries the number of the attempt.
    has_number: bool,
    names_appointment: bool,
}

/// Returns the reports of these attempts, each given by its index.
pub(super) fn reports(script: &Script, attempts: &[usize], rng: &mut Rng) -> Vec<Report> {
    if attempts.is_empty() {
        return Vec::new();
    }
    let one_attempt = attempts.len() == 1;
    let has_ids = script.attempts.iter().all(|attempt| attempt.provider_call_id.is_some());
    let may_omit_id = one_attempt && script.correlation != Correlation::ProviderCall;
    let provider_call_id_from = if may_omit_id && rng.u8(..5) == 0 { 2 } else { 0 };
    // Attempts that have no id need a number. Every event of an attempt names it in the same way.
    let is_numbered = !has_ids && (!one_attempt || rng.bool()) || provider_call_id_from == 0 && rng.u8(..4) == 0;
    let number_field = rng.choice([NumberField::Meta, NumberField::Meta, NumberField::Data, NumberField::Event]);
    let style = EventStyle {
        upper_case: rng.bool(),
        has_times: !(one_attempt && rng.u8(..8) == 0),
        provider_call_id_from,
        number_field: number_field.filter(|_| is_numbered),
        appointment_from: if script.correlation == Correlation::Call { rng.usize(..4) } else { 0 },
        always_adds_completed: rng.u8(..3) == 0,
    };
    let reports_start = rng.u8(..4) > 0;
    let mut reports = Vec::new();
    for (order, attempt_index) in attempts.iter().copied().enumerate() {
        let Some(attempt) = script.attempts.get(attempt_index) else { continue };
        let truth = &attempt.truth;
        let facts = [
            reports_start.then_some((Fact::Initiated, truth.placed_at)),
            truth.rang_at.map(|at| (Fact::Ringing, at)),
            truth.answered_at.map(|at| (Fact::Answered, at)),
            truth.outcome_fact,
            Some((Fact::Ended(truth.ending), truth.ended_at)),
            (style.always_adds_completed && truth.answered_at.is_none() && truth.ending != Ending::Completed)
                .then_some((Fact::Ended(Ending::Completed), truth.ended_at + SECOND)),
        ];
        for (place, (fact, at)) in facts.into_iter().flatten().enumerate() {
            let event = GenericEvent {
                attempt: attempt_index,
                fact,
                at,
                has_provider_call_id: attempt.provider_call_id.is_some() && place >= style.provider_call_id_from,
                has_number: true,
                names_appointment: script.appointment_id.is_some() && (order > 0 || place >= style.appointment_from),
            };
            reports.push(report(script, &event, &style, rng));
        }
        if rng.u8(..8) == 0 {
            let body = json!({"event_id": event_id(rng), "type": "billing.updated", "call_id": script.call_id});
            reports.push(Report {
                name: "billing.updated".to_owned(),
                attempt: attempt_index,
                has_provider_call_id: false,
                names_appointment: false,
                statements: Vec::new(),
                emitted_at: Provider::Generic.to_system_time(truth.ended_at) + 5 * SECOND,
                query: String::new(),
                body: body.to_string().into_bytes(),
            });
        }
        // After the last attempt too, a retry may be promised. It never comes.
        let is_last = order + 1 == attempts.len();
        let promises = if is_last { truth.scenario.is_worth_a_retry() && rng.u8(..4) == 0 } else { rng.u8(..4) > 0 };
        if promises && script.correlation != Correlation::ProviderCall {
            let event = GenericEvent {
                attempt: attempt_index,
                fact: Fact::RetryPlanned,
                at: truth.ended_at + rng.i64(2 * SECOND..30 * SECOND),
                has_provider_call_id: false,
                has_number: false,
                names_appointment: script.appointment_id.is_some(),
            };
            reports.push(report(script, &event, &style, rng));
        }
    }
    reports
}

fn report(script: &Script, event: &GenericEvent, style: &EventStyle, rng: &mut Rng) -> Report {
    let (lower, upper) = names(event.fact);
    let name = if style.upper_case { upper } else { lower };
    let occurred_at = style.has_times.then_some(event.at);
    let mut fields: Fields =
        vec![("event_id", event_id(rng).into()), (if style.upper_case { "type" } else { "event_type" }, name.into())];
    let mut meta = Map::from_iter([("source".to_owned(), json!("orchestrator"))]);
    let number = Value::from(event.attempt + 1);
    match style.number_field.filter(|_| event.has_number) {
        Some(NumberField::Meta) => drop(meta.insert("attempt".to_owned(), number)),
        Some(NumberField::Data) => fields.push(("data", json!({"attempt": number}))),
        Some(NumberField::Event) => fields.push(("attempt", number)),
        None => {}
    }
    fields.push(("meta", meta.into()));
    if let Some(time) = occurred_at.and_then(|at| jiff::Timestamp::from_millisecond(at).ok()) {
        fields.push((if style.upper_case { "created_at" } else { "occurred_at" }, format!("{time:.3}").into()));
    }
    let own_call_id = (script.correlation == Correlation::Call).then_some(&script.call_id);
    fields.extend(script.foreign_call_id.as_ref().or(own_call_id).map(|id| ("call_id", id.as_str().into())));
    let appointment_id = script.appointment_id.as_deref().filter(|_| event.names_appointment);
    fields.extend(appointment_id.map(|id| ("appointment_id", id.into())));
    if event.has_provider_call_id {
        let sid = script.attempts.get(event.attempt).and_then(|attempt| attempt.provider_call_id.clone());
        let line = json!({"sid": sid, "to": "+447700900000", "from": "+442079460018", "direction": "outbound"});
        fields.push(("call", line));
    }
    // A decision may be reported after the end of the call, so the answer that it implies has no time.
    let implied_at = occurred_at.filter(|_| event.fact.ending().is_some() || event.fact == Fact::Answered);
    let implied = implied_facts(event.fact).iter().map(|fact| Statement { fact: *fact, at: implied_at });
    Report {
        name: name.to_owned(),
        attempt: event.attempt,
        has_provider_call_id: event.has_provider_call_id,
        names_appointment: event.names_appointment,
        statements: implied.chain([Statement { fact: event.fact, at: occurred_at }]).collect(),
        emitted_at: Provider::Generic.to_system_time(event.at) + reporting_delay(rng),
        query: String::new(),
        body: object(fields).to_string().into_bytes(),
    }
}

/// Facts that the word for this fact implies.
const fn implied_facts(fact: Fact) -> &'static [Fact] {
    match fact {
        Fact::Answered | Fact::Ended(Ending::Completed | Ending::NoAnswer | Ending::Busy) => &[Fact::Ringing],
        Fact::Voicemail | Fact::Declined | Fact::Confirmed => &[Fact::Ringing, Fact::Answered],
        Fact::Initiated | Fact::Ringing | Fact::Ended(Ending::Failed | Ending::Canceled) | Fact::RetryPlanned => &[],
    }
}

fn event_id(rng: &mut Rng) -> String {
    format!("evt_{:012x}", rng.u64(..) >> 16)
}

/// Names of the event in lower case and in upper case.
const fn names(fact: Fact) -> (&'static str, &'static str) {
    match fact {
        Fact::Initiated => ("call.initiated", "CALL_STARTED"),
        Fact::Ringing => ("call.ringing", "RINGING"),
        Fact::Answered => ("call.in_progress", "ANSWERED"),
        Fact::Voicemail => ("voicemail.detected", "VOICEMAIL_DETECTED"),
        Fact::Declined => ("user.declined", "USER_DECLINED"),
        Fact::Confirmed => ("user.confirmed", "USER_CONFIRMED"),
        Fact::Ended(Ending::Completed) => ("call.completed", "ENDED"),
        Fact::Ended(Ending::NoAnswer) => ("call.no_answer", "TIMEOUT"),
        Fact::Ended(Ending::Busy) => ("call.busy", "BUSY"),
        Fact::Ended(Ending::Failed) => ("call.failed", "FAILED"),
        Fact::Ended(Ending::Canceled) => ("call.canceled", "CANCELED"),
        Fact::RetryPlanned => ("retry.scheduled", "RETRY_SCHEDULED"),
    }
}
