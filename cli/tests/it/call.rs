//! `switchhook call` and `switchhook republish`, with a `switchhook dev` that places calls.

use serde_json::Value;
use switchhook_domain::CallId;

use crate::operator::{block_on, connect};
use crate::stack::{CREATE_CALL, PROGRAM, Scratch, Stack, agent, pasted, run, switchhook, text, wait_for};

fn placing() -> (Scratch, Stack) {
    Stack::with_known_keys(&["--tick", "1s"])
}

/// Runs a subcommand of `call`. Returns its exit status, standard output and standard error.
fn call(stack: &Stack, arguments: &[&str]) -> (Option<i32>, String, String) {
    run(stack, &[&["call"], arguments].concat())
}

/// Creates a call with [`CREATE_CALL`] and more options. Returns the answer.
pub(crate) fn create(stack: &Stack, more: &[&str]) -> Value {
    let (code, out, errors) = run(stack, &[&CREATE_CALL[..], more, &["--json"]].concat());
    assert_eq!((code, errors), (Some(0), String::new()), "{out}");
    serde_json::from_str(&out).expect("one JSON object")
}

pub(crate) fn id(created: &Value) -> String {
    created["call_id"].as_str().expect("an id").to_owned()
}

/// Waits until the job of the call has this state, and returns the call.
pub(crate) fn wait_for_job(stack: &Stack, call_id: &str, job: &str) -> Value {
    wait_for(&format!("the job {job} of {call_id}"), || {
        let shown = stack.get(&format!("/call?id={call_id}")).expect("the call is known");
        if shown["job"]["state"] == job { Ok(shown) } else { Err(shown.to_string()) }
    })
}

fn lifecycles(shown: &Value) -> Vec<&str> {
    let attempts = shown["attempts"].as_array().expect("attempts");
    attempts.iter().map(|attempt| attempt["lifecycle"].as_str().expect("a state")).collect()
}

#[test]
fn call_is_created_once_and_placed() {
    let (_scratch, stack) = placing();
    let order = ["--appointment", "appt_7", "--metadata", "fake=invalid", "--idempotency-key", "order-7"];
    let created = create(&stack, &order);
    assert_eq!(id(&created), "call-050d39f27cbbd5c6d2e754f8767178ea");
    assert_eq!(create(&stack, &order), created, "the same request creates nothing");
    let shown = wait_for_job(&stack, &id(&created), "FAILED");
    assert_eq!((lifecycles(&shown), &shown["appointment_status"]), (vec![], &Value::from("Failed")));

    let (code, out, _) = run(&stack, &["show", &id(&created)]);
    assert_eq!(code, Some(0));
    for part in [id(&created).as_str(), "retell, outbound", "appt_7, Failed", "FAILED, rejected_by_provider"] {
        assert!(out.contains(part), "{part} is not in\n{out}");
    }
}

#[test]
fn complete_examples_are_accepted_as_they_are_written() {
    let (_scratch, stack) = placing();
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/placing-calls.md")).expect("the page");
    let (_, body) = page.split_once("```json\n").expect("a request");
    let (body, _) = body.split_once("```").expect("its end");
    let request = agent().post(format!("{}/calls", stack.url)).content_type("application/json");
    let mut answer = request.send(body).expect("an answer");
    let text_of_answer = answer.body_mut().read_to_string().expect("a body");
    assert_eq!(answer.status(), 201, "{text_of_answer}");

    let help = text(&switchhook(&["call", "create", "--help"]).stdout);
    let (_, examples) = help.split_once("Examples:\n").expect("examples");
    let (examples, _) = examples.split_once("\n\n").expect("their end");
    let examples = examples.replace("  switchhook ", &format!("{PROGRAM} "));
    let output = pasted(&format!("export SWITCHHOOK_TO={}\nset -e\n{examples}", stack.url));
    assert_eq!(output.status.code(), Some(0), "{examples}: {}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 2, "two calls were created");
}

#[test]
fn same_call_is_created_once_unless_another_is_wanted() {
    let (_scratch, stack) = placing();
    let due = in_a_day();
    let arguments = [&CREATE_CALL[..], &["--due", &due]].concat();
    let first = run(&stack, &arguments).1;
    let (code, again, _) = run(&stack, &arguments);
    let call_id = first.split(' ').next().expect("an id");
    assert_eq!(code, Some(0));
    assert!(again.starts_with(&format!("{call_id} was created by the same request")), "{again}");
    let (code, another, _) = run(&stack, &[&arguments[..], &["--allow-duplicate"]].concat());
    assert_eq!(code, Some(0));
    assert!(!another.contains(call_id) && another.contains(" created, due "), "{another}");
}

#[test]
fn everything_asked_for_reaches_the_stack() {
    let (_scratch, stack) = placing();
    let due = in_a_day();
    let order = ["--window", "Europe/London 09:00-18:00 mon,tue", "--attempts", "2", "--delay", "10m"];
    let created =
        create(&stack, &[&order[..], &["--due", &due, "--metadata", "a=b=c", "--idempotency-key", "k"]].concat());
    let shown = stack.get(&format!("/call?id={}", id(&created))).expect("it is known");
    assert_eq!(shown["metadata"]["a"], "b=c");
    let time = |text: &str| text.parse::<jiff::Timestamp>().expect("a time").as_millisecond();
    let due_at = created["due_at"].as_str().expect("a time");
    assert!(time(due_at) >= time(&due), "the due time is moved into the window: {due_at}");
    assert_eq!(shown["job"]["due_at"], due_at);
    // The same key with another window, number of attempts or delay is a different request, and is rejected.
    for (place, other) in [(1, "Europe/London 09:00-18:00 mon"), (3, "3"), (5, "11m")] {
        let mut changed = order;
        changed[place] = other;
        let rest = ["--due", &due, "--metadata", "a=b=c", "--idempotency-key", "k"];
        let (code, _, errors) = run(&stack, &[&CREATE_CALL[..], &changed, &rest].concat());
        assert_eq!(code, Some(1), "{other}");
        assert!(errors.contains("409 The idempotency key is taken"), "{errors}");
    }
}

#[test]
fn waiting_call_is_listed_triggered_and_canceled() {
    let (_scratch, stack) = placing();
    let due = in_a_day();
    let (one, two) =
        (id(&create(&stack, &["--due", &due, "--metadata", "fake=invalid"])), id(&create(&stack, &["--due", &due])));
    let (code, out, _) = call(&stack, &["list", "--job", "PENDING"]);
    assert_eq!(code, Some(0));
    assert!(out.contains(&one) && out.contains(&two) && out.starts_with("call "), "{out}");
    let (code, out, errors) = call(&stack, &["list", "--tab", "waiting", "--provider", "retell"]);
    assert!(code == Some(0) && out.contains(&one) && out.contains(&two), "{out}{errors}");
    let (_, out, _) = call(&stack, &["list", "--tab", "waiting", "--job", "CLAIMED", "--json"]);
    let page: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((page["calls"].as_array().map(Vec::len), &page["examined"]), (Some(0), &2.into()), "{out}");
    assert_eq!(call(&stack, &["list", "--tab", "in_flight"]).1, "no call is listed\n");
    let dials = stack.switchhook(&["dials"]);
    let printed = text(&dials.stdout);
    assert_eq!(dials.status.code(), Some(0), "{printed}{}", text(&dials.stderr));
    assert!(printed.contains("retell    closed") && printed.contains(&format!("  {one}  retell\n")), "{printed}");
    let (_, out, _) = call(&stack, &["list", "--limit", "1"]);
    let cursor = out.lines().last().and_then(|line| line.split_once("--cursor ")).expect("a cursor").1.to_owned();
    let (code, rest, _) = call(&stack, &["list", "--cursor", &cursor]);
    assert_eq!(code, Some(0));
    assert_ne!(out.contains(&one), rest.contains(&one), "each is on one page\n{out}\n{rest}");

    let (code, out, _) = call(&stack, &["trigger", &one]);
    assert_eq!((code, out), (Some(0), format!("{one} is CLAIMED\n")));
    wait_for_job(&stack, &one, "FAILED");
    let (code, out, _) = call(&stack, &["cancel", &two, "--json"]);
    let canceled: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((code, &canceled["job"]["state"]), (Some(0), &Value::from("CANCELED")));
    let (code, out, errors) = call(&stack, &["trigger", &two]);
    assert_eq!((code, out), (Some(1), String::new()));
    assert!(errors.contains("409") && errors.contains("the call is CANCELED"), "{errors}");

    // While the phone rings.
    let three = id(&create(&stack, &["--due", &due, "--metadata", "fake=forgotten"]));
    call(&stack, &["trigger", &three]);
    wait_for_job(&stack, &three, "IN_PROGRESS");
    let (code, out, _) = call(&stack, &["cancel", &three]);
    assert_eq!(code, Some(0));
    assert!(out.contains("IN_PROGRESS, canceled_by_user") && out.contains("no further one follows"), "{out}");
}

#[test]
fn refusal_is_told_with_every_field() {
    let (_scratch, stack) = placing();
    let numbers = ["create", "--provider", "generic", "--from-number", "12", "--to-number", "sip:desk@example.com"];
    let (code, out, errors) = call(&stack, &[&numbers[..], &["--window", "Europe/Atlantis 18:00-09:00"]].concat());
    assert_eq!((code, out), (Some(1), String::new()));
    for part in ["400 The request is not valid: ", "\n  providers: ", "\n  from: ", "\n  window.time_zone: "] {
        assert!(errors.contains(part), "{part} is not in {errors}");
    }
    let (code, _, errors) = call(&stack, &["cancel", "nobody"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("404 Not found: there is nothing with this id"), "{errors}");
}

#[test]
fn domain_events_are_published_again_under_their_ids() {
    let (_scratch, stack) = placing();
    let failed = id(&create(&stack, &["--metadata", "fake=invalid"]));
    let canceled = id(&create(&stack, &["--due", &in_a_day()]));
    call(&stack, &["cancel", &canceled]);
    wait_for_job(&stack, &failed, "FAILED");
    let first = published_events(&stack, &[&failed, &canceled]);
    let republish = |which: &[&str]| {
        let output = switchhook(&[&["republish"], which, &["--to", &stack.url]].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let published = || events_of_calls(&stack);
    let run = ["--yes", "--reason", "a test"];
    let (code, out, errors) = republish(&["--call", &canceled]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(out.contains("Nothing has changed") && out.contains("switchhook republish --plan p-"), "{out}");
    assert_eq!(published().len(), first.len(), "a plan publishes nothing");
    let (code, out, _) = republish(&[&["--call", &canceled][..], &run].concat());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("finished: 1 done, 0 unchanged, 0 skipped."), "{out}");
    let (code, out, _) = republish(&[&["--since", "10m", "--json"][..], &run].concat());
    let done: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((code, &done["run"]["counts"]["done"]), (Some(0), &Value::from(2)), "{out}");
    let again = published();
    assert_eq!(again.len(), 2 * first.len() + 1);
    assert!(again.iter().all(|event| first.contains(event)), "the same events, with the same content");
    let (code, out, _) = republish(&["--call", "nobody"]);
    assert_eq!(code, Some(1));
    assert!(out.contains("nobody: the call does not exist"), "{out}");
    let (code, _, errors) = republish(&["--call", &canceled, "--yes"]);
    assert_eq!(code, Some(3));
    assert!(errors.contains("a reason is needed"), "{errors}");
}

#[test]
fn placed_call_survives_kill_9_and_ends() {
    let scratch = Scratch::new();
    let (data, providers) = (scratch.0.join("data"), scratch.providers());
    let start = || Stack::with_data(&data, &providers, &["--inactivity-timeout", "4s"]);
    let mut stack = start();
    let rung = id(&create(
        &stack,
        &["--metadata", "fake=no_answer,busy", "--attempts", "2", "--delay", "1s", "--retry-unheard"],
    ));
    wait_for("the first dial", || {
        let shown = stack.get(&format!("/call?id={rung}")).expect("it is known");
        // The row records the dial before the request, and the id after it.
        if shown["attempts"][0]["provider_call_id"].is_string() { Ok(()) } else { Err(shown.to_string()) }
    });
    // The first call is ringing when the stack is killed. The fake provider is killed too, and goes on with it. The second
    // call is due only afterwards. One that is due at once can be killed between its claim and its dial, and then waits
    // until its lease ends, minutes later.
    let due = due_in(jiff::SignedDuration::from_secs(10));
    let waiting = id(&create(&stack, &["--metadata", "fake=busy", "--attempts", "1", "--due", &due]));
    stack.kill();
    let stack = start();
    let shown = wait_for_job(&stack, &rung, "FAILED");
    assert_eq!(lifecycles(&shown), ["no_answer", "busy"], "{shown}");
    let shown = wait_for_job(&stack, &waiting, "FAILED");
    assert_eq!(lifecycles(&shown), ["busy"], "{shown}");
    let events = published_events(&stack, &[&rung, &waiting]);
    for call_id in [&rung, &waiting] {
        let of_call: Vec<u64> = events
            .iter()
            .filter(|(_, _, event)| event["call_id"] == **call_id)
            .map(|(_, _, event)| event["sequence"].as_u64().expect("a number"))
            .collect();
        let mut once = of_call.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once, (1..=once.len() as u64).collect::<Vec<_>>(), "{call_id}");
        assert!(once.len() > 3, "{call_id}: {once:?}");
    }
}

/// The domain events so far, without those about what operators do.
fn events_of_calls(stack: &Stack) -> Vec<(String, String, Value)> {
    stack.domain_events(None).into_iter().filter(|event| event.1 != "operator.action").collect()
}

/// Waits until the domain events of these calls are published, and returns the events of all calls.
fn published_events(stack: &Stack, calls: &[&String]) -> Vec<(String, String, Value)> {
    let operated = connect(&stack.url).expect("a stack");
    let expected: Vec<String> = calls
        .iter()
        .flat_map(|id| {
            let call = block_on(operated.calls.get_call(&CallId::new(id.as_str()))).expect("the table answers");
            call.expect("the call is known").domain_events_from(1)
        })
        .map(|event| event.id)
        .collect();
    wait_for("the domain events of the calls", || {
        let events = events_of_calls(stack);
        let missing = expected.iter().find(|id| !events.iter().any(|event| event.0 == **id));
        missing.map_or(Ok(events.clone()), |id| Err(format!("{id} is not published")))
    })
}

pub(crate) fn in_a_day() -> String {
    due_in(jiff::SignedDuration::from_hours(24))
}

fn due_in(delay: jiff::SignedDuration) -> String {
    jiff::Timestamp::now().checked_add(delay).expect("a time to come").to_string()
}
