//! Runs: started from the page of a plan, watched, stopped and resumed.

use std::sync::Arc;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use switchhook_operate::Error;
use switchhook_operate::mask::Masker;
use switchhook_operate::plan::{Plan, PlanId};
use switchhook_operate::run::{self, RATE_DEFAULT, Run, RunId, RunState};

use crate::console::Console;
use crate::page::{self, Entry, Frame};
use crate::pages::plan::{self, RefusedForm, is_run_here, page_of, refuse_form, run_form_purpose};
use crate::parts::{self, counted};
use crate::query::{Query, url};
use crate::runs::{Choices, Stage};
use crate::session::Session;

/// Highest rate that the page offers, in items per second.
const RATE_MAX: u32 = 1_000;
/// Seconds after which a browser without scripts loads the page of a run again.
const REFRESH_SECONDS: &str = "3";

/// Starts the run of a plan.
pub(crate) async fn start(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    let form = Query::parse(&form);
    let id = PlanId::new(form.get("plan").unwrap_or_default());
    let is_valid = session.accepts(&run_form_purpose(&id), form.get("form_token").unwrap_or_default());
    let Some(runs) = console.runs().filter(|_| is_valid) else {
        return refuse_form(&console, &url("/plan", &[("id", id.as_str())]));
    };
    let loaded = match Plan::load(console.stack(), &id).await {
        Ok(loaded) => loaded,
        Err(error) => return refuse(&console, &session, &id, &error.to_string(), &form).await,
    };
    let choices = match choices(&loaded, &form) {
        Ok(choices) => choices,
        Err(reason) => return refuse(&console, &session, &id, &reason, &form).await,
    };
    match runs.start(console.stack(), &id, loaded.verb, choices).await {
        None => {
            let reason = "the plan is running already, and the reason of its start counts";
            refuse(&console, &session, &id, reason, &form).await
        }
        Some(Stage::Ended(Some(error))) => {
            if let Error::Refusal(reason) = &*error {
                return refuse(&console, &session, &id, &reason.to_string(), &form).await;
            }
            // The page of the run tells the error, and how the run goes on.
            to_run(&RunId::of_plan(&id))
        }
        Some(Stage::Starting | Stage::Working | Stage::Ended(None)) => to_run(&RunId::of_plan(&id)),
    }
}

/// Shows the page of the plan again, with the reason and with what the user typed.
async fn refuse(console: &Console, session: &Session, id: &PlanId, reason: &str, form: &Query) -> Response {
    page_of(console, session, id, Some(RefusedForm { reason, form })).await
}

/// Reads the form of a run. An error is the reason to refuse it.
fn choices(plan: &Plan, form: &Query) -> Result<Choices, String> {
    if !is_run_here(plan.verb) {
        return Err("the console does not run such plans; the terminal does".to_owned());
    }
    let reason = form.get("reason").ok_or("a reason is needed, for the audit record")?.to_owned();
    let number = |name: &str| form.get(name).and_then(|text| text.parse::<usize>().ok());
    if number("count") != Some(plan.items.len()) {
        return Err(format!("the number that was typed is not that of the items, {}", plan.items.len()));
    }
    let allow_ringing = number("ring").is_some_and(|phones| phones == plan.phones && phones > 0);
    if plan.phones > 0 && !allow_ringing {
        return Err(format!("phones that could ring: {}; confirm that too", plan.phones));
    }
    let rate = form.get("rate").map_or(Some(RATE_DEFAULT), |text| text.parse().ok());
    let rate = rate.filter(|rate| (1..=RATE_MAX).contains(rate)).ok_or("the rate must be a number from 1 to 1000")?;
    Ok(Choices { reason, rate, allow_ringing })
}

/// Stops a run at the end of its page of items.
pub(crate) async fn stop(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    act(&console, &session, &form, Button::Stop).await
}

/// Goes on with a run.
pub(crate) async fn resume(
    State(console): State<Console>,
    Extension(session): Extension<Session>,
    form: Bytes,
) -> Response {
    act(&console, &session, &form, Button::Resume).await
}

/// Button of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Button {
    Stop,
    Resume,
}

impl Button {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Resume => "resume",
        }
    }

    /// Purpose of the token of its form.
    fn purpose(self, id: &RunId) -> String {
        format!("{} {id}", self.as_str())
    }
}

async fn act(console: &Console, session: &Session, form: &[u8], button: Button) -> Response {
    let form = Query::parse(form);
    let id = RunId::new(form.get("run").unwrap_or_default());
    let is_valid = session.accepts(&button.purpose(&id), form.get("form_token").unwrap_or_default());
    let Some(runs) = console.runs().filter(|_| is_valid) else {
        return refuse_form(console, &url("/run", &[("id", id.as_str())]));
    };
    match button {
        Button::Stop => runs.stop(&id),
        // The page of the run tells an error.
        Button::Resume => drop(runs.resume(console.stack(), &id).await),
    }
    to_run(&id)
}

fn to_run(id: &RunId) -> Response {
    Redirect::to(&url("/run", &[("id", id.as_str())])).into_response()
}

/// Shows a run. A browser without scripts loads the page again while the run goes on.
pub(crate) async fn show(State(console): State<Console>, Extension(session): Extension<Session>, uri: Uri) -> Response {
    let query = Query::of(&uri);
    let id = RunId::new(query.get("id").unwrap_or_default());
    let frame = Frame { title: format!("Run {id}"), entry: Some(Entry::Repair), command: "run list".to_owned() };
    let here = console.runs().and_then(|runs| runs.stage(&id));
    match run::get(console.stack(), &id).await {
        Ok(Some(run)) => page::whole(&console, StatusCode::OK, &frame, &content(&console, &session, &run, here)),
        Ok(None) => page::whole(&console, StatusCode::NOT_FOUND, &frame, &nothing(&id, here)),
        Err(error) => {
            let content = html! { h1 { "Run " (parts::foreign(id.as_str())) } (parts::problem("the run", &error)) };
            page::whole(&console, StatusCode::BAD_GATEWAY, &frame, &content)
        }
    }
}

fn nothing(id: &RunId, here: Option<(Stage, bool)>) -> Markup {
    html! {
        h1 { "There is no such run" }
        p {
            @if id.as_str().is_empty() { "The address names no run." }
            @else { "Nothing was done under the id " (parts::foreign(id.as_str())) "." }
        }
        (stopped_by(here))
    }
}

/// Error that stopped a run of this process.
fn stopped_by(here: Option<(Stage, bool)>) -> Markup {
    let error: Option<Arc<Error>> = match here {
        Some((Stage::Ended(error), _)) => error,
        Some((Stage::Starting | Stage::Working, _)) | None => None,
    };
    html! {
        @if let Some(error) = error {
            div.problem role="alert" data-kind=(error.kind().as_str()) {
                strong { "The run stopped. " } (parts::foreign(&error.explanation().to_string()))
            }
        }
    }
}

fn content(console: &Console, session: &Session, run: &Run, here: Option<(Stage, bool)>) -> Markup {
    let (is_working, is_stopping) = match &here {
        Some((Stage::Starting | Stage::Working, is_stopping)) => (true, *is_stopping),
        Some((Stage::Ended(_), _)) | None => (false, false),
    };
    let is_finished = run.state == RunState::Finished;
    let state = match (is_finished, is_working, is_stopping) {
        (true, _, _) => "finished",
        (false, true, true) => "stopping at the end of its page of items",
        (false, true, false) => "working",
        (false, false, _) => "not finished, and not carried out by this console",
    };
    html! {
        @if is_working { noscript data-keep { meta http-equiv="refresh" content=(REFRESH_SECONDS); } }
        h1 { "Run: " (run.verb.command()) ", " (state) }
        (stopped_by(here))
        p.progress {
            progress aria-label="Items that are done with" max=(run.items) value=(run.position) { (run.position) " of " (run.items) }
            " " strong { (run.position) " of " (counted(run.items, "item")) } " · " (run.result())
        }
        p.muted {
            "Run " code { (run.id.as_str()) } " of plan " a href=(url("/plan", &[("id", run.plan_id.as_str())])) { (run.plan_id.as_str()) }
            ", started at " (parts::date_and_time(&run.started_at.to_string())) " by " (parts::foreign(&run.who))
            ", last step at " (parts::date_and_time(&run.updated_at.to_string())) "."
        }
        p { "Reason: " (parts::foreign(&Masker::new().text(&run.reason))) }
        (plan::skipped("skipped", &run.skipped, run.counts.skipped))
        @if is_working && !is_stopping {
            (button(session, &run.id, Button::Stop, "Stop"))
            p.muted { "A stopped run keeps its place, and can go on later. Closing this page does not stop it." }
        } @else if !is_finished && !is_working {
            @if console.runs().is_some() {
                (button(session, &run.id, Button::Resume, "Go on"))
                p.muted { "If another process still carries the run out, that process stops." }
            }
            p { "In the terminal: " (parts::command(console, &format!("run resume {}", run.id))) }
        }
        @if is_finished {
            p { a href="/repair?tab=audit" { "See it in the audit" } " · " a href="/repair" { "What is left to repair" } }
        }
    }
}

fn button(session: &Session, id: &RunId, button: Button, label: &str) -> Markup {
    html! {
        // A form of its own name: a live page exchanges it as a whole, so no button changes its meaning while it is pressed.
        form.action.exchanged #(button.as_str()) method="post" action={ "/run/" (button.as_str()) } {
            input type="hidden" name="form_token" value=(session.form_token(&button.purpose(id)));
            input type="hidden" name="run" value=(id.as_str());
            button type="submit" { (label) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan of two items, which could make this number of phones ring.
    fn plan(verb: &str, phones: usize) -> Plan {
        let json = format!(
            r#"{{"id": "p-1", "verb": "{verb}", "made_at": "2026-11-22T15:58:04Z", "valid_until": "2026-11-22T16:13:04Z", "filter": null,
            "items": [{{"action": "replay", "call_id": "c1"}}, {{"action": "replay", "call_id": "c2"}}], "capped": false,
            "examined": 2, "unaffected": 0, "skipped": [], "skipped_count": 0, "effects": [], "calls": 2, "phones": {phones},
            "corrections": 0, "domain_events": 0,
            "cost": {{"requests": 0, "read_units": 0, "write_units": 0, "dollars": 0.0}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn chosen(plan: &Plan, form: &str) -> Result<(u32, bool), String> {
        choices(plan, &Query::parse(form.as_bytes())).map(|choices| (choices.rate, choices.allow_ringing))
    }

    #[test]
    fn run_needs_a_reason_and_the_typed_number_of_items() {
        let plan = plan("replay", 0);
        assert_eq!(chosen(&plan, "reason=x&count=2&rate=7"), Ok((7, false)));
        for wrong in
            ["count=2", "reason=x", "reason=x&count=3", "reason=x&count=2&rate=0", "reason=x&count=2&rate=9999"]
        {
            assert!(chosen(&plan, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn one_confirmation_is_not_enough_if_phones_could_ring() {
        let ringing = plan("replay", 3);
        assert!(chosen(&ringing, "reason=x&count=2").is_err());
        assert!(chosen(&ringing, "reason=x&count=2&ring=2").is_err(), "the number of another plan");
        assert_eq!(chosen(&ringing, "reason=x&count=2&ring=3"), Ok((RATE_DEFAULT, true)));
        assert_eq!(chosen(&plan("replay", 0), "reason=x&count=2&ring=0"), Ok((RATE_DEFAULT, false)));
    }

    #[test]
    fn plans_that_end_or_forget_calls_are_for_the_terminal() {
        for verb in ["forget", "stop", "refill"] {
            assert!(chosen(&plan(verb, 0), "reason=x&count=2").is_err(), "{verb}");
        }
    }
}
