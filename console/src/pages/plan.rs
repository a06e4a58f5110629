//! Plans: made by a form of any page, and shown with every effect before anything happens.
//!
//! A plan changes nothing, so a read-only console makes plans too. `POST /plan` takes these fields:
//!
//! | `kind` | further fields |
//! |---|---|
//! | `redrive`, `discard_dead_letters` | `event` (any number), `provider`, `cause`, or `all=yes` |
//! | `reprocess`, `discard_quarantined` | `event` (any number), `provider`, `cause`, or `all=yes` |
//! | `replay`, `verify` | `call` |
//! | `republish` | `call`, or `failed=yes` for what the relay gave up |
//!
//! Other pages write such a form with [`button`].

mod effects;
mod items;

use std::fmt;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use switchhook_domain::EventId;
use switchhook_operate::dead_letters::{self, LetterFilter};
use switchhook_operate::mask::Masker;
use switchhook_operate::plan::{EFFECTS_MAX, ITEMS_MAX_DEFAULT, Plan, PlanId, Skipped, Subject, Verb};
use switchhook_operate::quarantine::{self, QuarantineFilter};
use switchhook_operate::replay::{self, ReplayFilter};
use switchhook_operate::republish::{self, RepublishFilter};
use switchhook_operate::run::{self, RATE_DEFAULT, Run, RunId, RunState};
use switchhook_operate::selection::call_or_entity;
use switchhook_operate::verify::{self, Problem, SEARCHED_DEFAULT, VerifyFilter, VerifyReport};
use switchhook_operate::{Error, Refusal, Stack};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::plan::effects::{effects, summary};
use crate::pages::plan::items::{asked_for, discarded, items, subject};
use crate::parts::{self, counted};
use crate::query::{Query, url};
use crate::session::Session;

/// Purpose of the token in forms that make a plan.
const PLAN_FORM: &str = "plan";

/// Kind of a plan that a page asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Redrive,
    DiscardDeadLetters,
    Reprocess,
    DiscardQuarantined,
    Replay,
    Verify,
    Republish,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Redrive,
        Self::DiscardDeadLetters,
        Self::Reprocess,
        Self::DiscardQuarantined,
        Self::Replay,
        Self::Verify,
        Self::Republish,
    ];

    /// Returns the value of the field `kind`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Redrive => "redrive",
            Self::DiscardDeadLetters => "discard_dead_letters",
            Self::Reprocess => "reprocess",
            Self::DiscardQuarantined => "discard_quarantined",
            Self::Replay => "replay",
            Self::Verify => "verify",
            Self::Republish => "republish",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Plan, or the reason why there is none.
enum Made {
    Plan(Box<Plan>),
    /// The call matches its events, or nothing can be mended.
    Verified(VerifyReport),
}

/// Returns a form with one button, which makes a plan. The fields are those of `POST /plan` without `kind`.
pub(crate) fn button(session: &Session, label: &str, kind: Kind, fields: &[(&str, &str)]) -> Markup {
    html! {
        form.action method="post" action="/plan" {
            input type="hidden" name="form_token" value=(session.form_token(PLAN_FORM));
            input type="hidden" name="kind" value=(kind.as_str());
            @for (name, value) in fields { input type="hidden" name=(name) value=(value); }
            button type="submit" { (label) }
        }
    }
}

/// Answers with the refusal of a form: it is too old, or another page sent it. `page` is the URL of the page that has such a form.
pub(crate) fn refuse_form(console: &Console, page: &str) -> Response {
    let frame = Frame { title: "Nothing was done".to_owned(), entry: None, command: "--help".to_owned() };
    let content = html! {
        h1 { (frame.title) }
        p { "This form is no longer valid, because it is of an earlier session. " a href=(page) { "Load its page again" } "." }
    };
    page::answer(console, StatusCode::FORBIDDEN, &frame, &content)
}

/// Makes a plan, and leads to its page.
pub(crate) async fn make(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    let form = Query::parse(&form);
    let call = form.id("call");
    if !session.accepts(PLAN_FORM, form.get("form_token").unwrap_or_default()) {
        return refuse_form(&console, &call.map_or("/repair".to_owned(), |call| url("/call", &[("id", call)])));
    }
    let frame = Frame { title: "Plan".to_owned(), entry: Some(Entry::Repair), command: "run list".to_owned() };
    let Some(kind) = form.get("kind").and_then(Kind::parse) else {
        let content = html! { h1 { "No plan was made" } p { "The form names no kind of plan." } };
        return page::answer(&console, StatusCode::BAD_REQUEST, &frame, &content);
    };
    match plan(console.stack(), kind, &form).await {
        Ok(Made::Plan(plan)) => Redirect::to(&url("/plan", &[("id", plan.id.as_str())])).into_response(),
        Ok(Made::Verified(report)) => page::answer(&console, StatusCode::OK, &frame, &verified(&report, call)),
        Err(Error::Refusal(refusal)) => {
            let content = html! { h1 { "No plan was made" } (refused(&refusal)) };
            page::answer(&console, StatusCode::UNPROCESSABLE_ENTITY, &frame, &content)
        }
        Err(error) => {
            let content = html! { h1 { "No plan was made" } (parts::problem("what the plan is about", &error)) };
            page::answer(&console, StatusCode::BAD_GATEWAY, &frame, &content)
        }
    }
}

async fn plan(stack: &Stack, kind: Kind, form: &Query) -> Result<Made, Error> {
    let text = |name: &str| form.get(name).map(str::to_owned);
    let call = || form.id("call").map(call_or_entity);
    let all = form.get("all") == Some("yes");
    let origin = || form.get("provider").and_then(|name| name.parse().ok());
    let letters = || LetterFilter {
        keys: form.ids("event").into_iter().map(str::to_owned).collect(),
        cause: text("cause"),
        origin: origin(),
        all,
    };
    let quarantined = || QuarantineFilter {
        event_ids: form.ids("event").into_iter().map(EventId::new).collect(),
        origin: origin(),
        cause: text("cause"),
        all,
    };
    let most = ITEMS_MAX_DEFAULT;
    let plan = match kind {
        Kind::Redrive => dead_letters::plan_redrive(stack, &letters(), most).await?,
        Kind::DiscardDeadLetters => dead_letters::plan_discard(stack, &letters(), most).await?,
        Kind::Reprocess => quarantine::plan_reprocess(stack, &quarantined(), most).await?,
        Kind::DiscardQuarantined => quarantine::plan_discard(stack, &quarantined(), most).await?,
        Kind::Replay => {
            let filter = ReplayFilter { call: call(), ..ReplayFilter::default() };
            replay::plan(stack, &filter, most, &mut |_, _| {}).await?
        }
        Kind::Republish => {
            let failed = form.get("failed") == Some("yes");
            let calls = RepublishFilter::Calls(call().into_iter().collect());
            let filter = if failed { RepublishFilter::Failed(None) } else { calls };
            republish::plan(stack, &filter, most, &mut |_, _| {}).await?
        }
        Kind::Verify => {
            let Some(call) = call() else { return Err(Refusal::EmptyFilter("name a call").into()) };
            let filter = VerifyFilter::Calls(vec![call]);
            let since = stack.now().minus(SEARCHED_DEFAULT);
            let report = verify::verify(stack, &filter, since, &mut |_, _| {}).await?;
            if !report.is_repairable() {
                return Ok(Made::Verified(report));
            }
            verify::plan_repair(stack, &filter, &report, most).await?
        }
    };
    Ok(Made::Plan(Box::new(plan)))
}

fn verified(report: &VerifyReport, call: Option<&str>) -> Markup {
    let call = call.map(call_or_entity);
    html! {
        @if report.is_clean() {
            h1 { "The call matches its events" }
            p {
                @if let Some(call) = &call { "Call " (subject(call)) ": its" } @else { "Its" }
                " row was folded again from the events in the inbox, and nothing differs. There is nothing to repair."
            }
        } @else {
            h1 { "The call could not be verified" }
            @for finding in &report.findings {
                p { (subject(&finding.call_id)) ": " (why_not(&finding.problem)) }
            }
        }
        @if let Some(call) = call.as_ref().filter(|call| !call.is_entity()) {
            p { a href=(url("/call", &[("id", call.as_str())])) { "Back to the call" } }
        }
    }
}

fn why_not(problem: &Problem) -> Markup {
    html! {
        @match problem {
            Problem::Unknown => { "there is no row, and the inbox holds no event of the call in the last day." }
            Problem::Unreadable { error } => { "the row cannot be read: " (parts::foreign(error)) }
            Problem::TooManyEvents => { "too many events of other calls arrived in the same minutes." }
            Problem::TooFarBack => { "too many events arrived in the last day to find those of the call." }
            Problem::Different { .. } | Problem::Lost { .. } => { "the row differs from the events." }
        }
    }
}

/// Shows a stored plan.
pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let id = PlanId::new(query.get("id").unwrap_or_default());
    page_of(&console, &session, &id, None).await
}

/// Form of a run that was refused. Its page shows again what the user typed.
#[derive(Clone, Copy)]
pub(crate) struct RefusedForm<'a> {
    pub(crate) reason: &'a str,
    pub(crate) form: &'a Query,
}

/// Answers with the page of a plan. `refused_form` says why it was not run.
pub(crate) async fn page_of(
    console: &Console,
    session: &Session,
    id: &PlanId,
    refused_form: Option<RefusedForm<'_>>,
) -> Response {
    let mut frame = Frame { title: format!("Plan {id}"), entry: Some(Entry::Repair), command: "run list".to_owned() };
    let stack = console.stack();
    let loaded = tokio::try_join!(Plan::load(stack, id), async { run::get(stack, &RunId::of_plan(id)).await });
    let (status, content) = match loaded {
        Ok((plan, run)) => {
            frame.command = format!("{} --plan {id}", plan.verb.command());
            let status = if refused_form.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
            (status, content(console, session, &plan, run.as_ref(), refused_form))
        }
        Err(Error::Refusal(_)) if id.as_str().is_empty() => {
            (StatusCode::NOT_FOUND, html! { h1 { "There is no such plan" } p { "The address names no plan." } })
        }
        Err(Error::Refusal(refusal)) => {
            (StatusCode::NOT_FOUND, html! { h1 { "There is no such plan" } (refused(&refusal)) })
        }
        Err(error) => (
            StatusCode::BAD_GATEWAY,
            html! { h1 { "Plan " (parts::foreign(id.as_str())) } (parts::problem("the plan", &error)) },
        ),
    };
    if refused_form.is_some() {
        page::answer(console, status, &frame, &content)
    } else {
        page::whole(console, status, &frame, &content)
    }
}

/// Reason why nothing was done.
pub(crate) fn refused(reason: &impl fmt::Display) -> Markup {
    html! { p.refused role="alert" { "Refused: " (parts::foreign(&reason.to_string())) "." } }
}

fn content(
    console: &Console,
    session: &Session,
    plan: &Plan,
    run: Option<&Run>,
    refused_form: Option<RefusedForm<'_>>,
) -> Markup {
    let expired = console.stack().now() > plan.valid_until;
    html! {
        h1 { "Plan: " (title(plan)) }
        @if let Some(refused_form) = refused_form { (refused(&refused_form.reason)) }
        p.muted {
            "Plan " code { (plan.id.as_str()) } " was made at " (parts::time(&plan.made_at.to_string()))
            @if run.is_some() { "." }
            @else {
                @if expired { ", and is no longer valid." } @else { ", and is valid until " (parts::time(&plan.valid_until.to_string())) "." }
                " Nothing has changed by it."
            }
        }
        (asked_for(plan))
        (summary(plan))
        (items(plan))
        (discarded(plan))
        @if !plan.effects.is_empty() { (effects(plan)) }
        (left_out(plan))
        @if plan.verb == Verb::Redrive && !plan.items.is_empty() {
            p.muted {
                "An event is folded behind the events of its call that wait in the queue. One of those may be tried again only minutes "
                "later. The run waits for 20 seconds, then keeps the dead letter and names it: redrive it again later."
            }
        }
        @if let Some(run) = run {
            p {
                @if run.state == RunState::Finished { "This plan was run: " } @else { "The run of this plan has begun: " }
                a href=(url("/run", &[("id", run.id.as_str())])) { (run.id.as_str()) } ", " (run.result()) "."
            }
        } @else if plan.items.is_empty() {
            (parts::empty(&html! { "The plan holds no item, so there is nothing to run." }))
        } @else if expired {
            p.refused { "The plan is older than 15 minutes. Too much may have changed: make a new one." }
        } @else if is_run_here(plan.verb) && console.runs().is_some() {
            (run_form(session, plan, refused_form.map(|refused| refused.form)))
        } @else {
            @let ringing = if plan.phones > 0 { " --allow-ringing" } else { "" };
            p { "This console does not run " @if console.runs().is_some() { "such " } "plans. In the terminal, with a reason: "
                (parts::command(console, &format!("{} --plan {}{ringing} --yes --reason TEXT", plan.verb.command(), plan.id))) }
            @if console.runs().is_none() {
                p.muted { "Start the console with " code { "--allow-changes" } " to run plans from this page." }
            }
        }
    }
}

/// True if the console runs plans of this verb. Others are for the terminal alone: they end or forget calls.
pub(crate) const fn is_run_here(verb: Verb) -> bool {
    match verb {
        Verb::Replay
        | Verb::Redrive
        | Verb::DiscardDeadLetters
        | Verb::Reprocess
        | Verb::DiscardQuarantined
        | Verb::Republish
        | Verb::Verify => true,
        Verb::Copy | Verb::Refill | Verb::Stop | Verb::Forget => false,
    }
}

/// Returns what the plan does, for example `redrive 2 dead letters of 2 calls`.
fn title(plan: &Plan) -> String {
    let items = plan.items.len();
    let (does, what) = match plan.verb {
        Verb::Replay => ("replay", "event"),
        Verb::Redrive => ("redrive", "dead letter"),
        Verb::DiscardDeadLetters => ("discard", "dead letter"),
        Verb::Reprocess => ("process again", "quarantined event"),
        Verb::DiscardQuarantined => ("discard", "quarantined event"),
        Verb::Republish => ("publish again", "item"),
        Verb::Verify => ("repair", "item"),
        Verb::Refill => ("refill", "call"),
        Verb::Stop => ("end", "call"),
        Verb::Forget => ("forget", "item"),
        Verb::Copy => ("copy", "table part"),
    };
    let of = [(plan.calls, "call"), (plan.effects_on(Subject::Booking), "booking")];
    let of: Vec<String> =
        of.into_iter().filter(|(count, _)| *count > 0).map(|(count, noun)| counted(count, noun)).collect();
    let of = if of.is_empty() { String::new() } else { format!(" of {}", of.join(" and ")) };
    format!("{does} {}{of}", counted(items, what))
}

/// Items that the plan leaves out, with the reasons.
fn left_out(plan: &Plan) -> Markup {
    html! {
        @if let Some(hidden) = plan.without_effect() {
            p { "The effect on " (hidden) " is not worked out, because a plan shows " (EFFECTS_MAX) ". The run makes none of their phones ring." }
        }
        @if plan.capped {
            @match plan.continue_at {
                Some(at) => p { (why_capped(plan)) " Run it, and then go on in the terminal with --since " (at.to_string()) "." },
                None => p { (why_capped(plan)) " Run it, and then make the next plan." },
            }
        }
        @if plan.unaffected > 0 {
            @let what = if plan.items.is_empty() { "item" } else { "other item" };
            p { "Nothing is to be done for " (counted(plan.unaffected, what)) "." }
        }
        (skipped("cannot be processed", &plan.skipped, plan.skipped_count))
        @for warning in &plan.warnings { p { strong.act { "Warning: " } (parts::foreign(&Masker::new().text(warning))) "." } }
        @for one in &plan.not_found {
            p { span.id { (parts::foreign(&one.id)) } ": " (parts::foreign(&Masker::new().text(&one.reason))) "." }
        }
    }
}

/// Says why more items may match than the plan holds.
fn why_capped(plan: &Plan) -> String {
    if matches!(plan.verb, Verb::Redrive | Verb::DiscardDeadLetters | Verb::Forget) {
        return "More may match: the plan has reached its limit, or the dead-letter queue did not give out all its messages. Of one \
                call, it gives at most ten at a time."
            .to_owned();
    }
    if plan.continue_at.is_some() {
        return "The plan has reached a limit, so more may match.".to_owned();
    }
    // A plan of the terminal may have another limit than this page's plans.
    let selected = plan.found();
    format!("The plan has reached its limit of {selected} items, so more may match.")
}

/// Items that are or were left alone.
pub(crate) fn skipped(what: &str, named: &[Skipped], count: usize) -> Markup {
    let mut masker = Masker::new();
    html! {
        @if count > 0 {
            details.skipped open[count <= 5] {
                summary { (counted(count, "item")) " " (what) }
                ul {
                    @for one in named {
                        li { span.id { (parts::foreign(&one.item)) } ": " (parts::foreign(&masker.text(&one.reason))) }
                    }
                    @if count > named.len() { li { "and " (count - named.len()) " more" } }
                }
            }
        }
    }
}

/// Prints the form that runs a plan, with what the user typed before.
fn run_form(session: &Session, plan: &Plan, typed: Option<&Query>) -> Markup {
    let reason = typed.and_then(|form| form.get("reason"));
    let rate = typed.and_then(|form| form.get("rate")).map_or_else(|| RATE_DEFAULT.to_string(), str::to_owned);
    let count = plan.items.len();
    html! {
        form.change.panel method="post" action="/run" {
            input type="hidden" name="form_token" value=(session.form_token(&run_form_purpose(&plan.id)));
            input type="hidden" name="plan" value=(plan.id.as_str());
            label.field.reason { "Reason, for the audit record"
                input name="reason" required maxlength="500" autocomplete="off" placeholder="a ticket, and what was wrong" value=[reason]; }
            label.field { span { "Type " strong { (count) } " to run them" }
                input name="count" required inputmode="numeric" pattern="[0-9]+" autocomplete="off" size="8"; }
            label.field { "Items a second"
                input name="rate" type="number" min="1" max="1000" value=(rate) required; }
            @if plan.phones > 0 {
                label.confirm {
                    input type="checkbox" name="ring" value=(plan.phones) required;
                    strong { "Up to " (counted(plan.phones, "phone")) " could ring because of this run. I want that." }
                }
            }
            button.danger type="submit" { "Run" }
        }
    }
}

/// Purpose of the token in the form that runs a plan.
pub(crate) fn run_form_purpose(plan: &PlanId) -> String {
    format!("run {plan}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn booking_is_not_called_a_call() {
        let effect = |call_id: &str, about: &str| {
            json!({"call_id": call_id, "about": about, "items": 1, "before": null, "after": null, "announces": [],
                "corrections": 0, "could_ring": about == "booking", "blocks_number": false})
        };
        let plan = |calls: usize| -> Plan {
            let mut all = vec![effect("entity:x-calcom:b1", "booking")];
            all.extend((0..calls).map(|n| effect(&format!("c{n}"), "call")));
            serde_json::from_value(json!({
                "id": "p-1", "verb": "replay", "made_at": "2026-11-22T15:58:04Z", "valid_until": "2026-11-22T16:13:04Z",
                "filter": null, "items": [], "capped": false, "examined": 0, "unaffected": 0, "skipped": [],
                "skipped_count": 0, "effects": all, "calls": calls, "phones": 1, "corrections": 0, "domain_events": 0,
                "cost": {"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0},
            }))
            .unwrap()
        };
        assert_eq!(title(&plan(0)), "replay 0 events of 1 booking");
        assert_eq!(title(&plan(2)), "replay 0 events of 2 calls and 1 booking");
        let table = effects(&plan(1)).into_string();
        assert!(table.contains("Call or booking") && table.contains("booking <span class=\"id\">"), "{table}");
        assert!(!table.contains("/call?id=entity"), "a booking has no page of a call: {table}");
        assert!(table.contains("Calls and bookings before and after"), "{table}");
        let of_booking = summary(&plan(0)).into_string();
        assert!(of_booking.contains("Bookings that schedule a call") && !of_booking.contains("Calls that change"));
        assert!(!left_out(&plan(0)).into_string().contains("not worked out"));
        let more = Plan { calls: 2, entities_without_effect: 1, ..plan(0) };
        let text = left_out(&more).into_string();
        assert!(text.contains("The effect on 2 more calls and up to 1 more booking is not worked out"), "{text}");
    }
}
