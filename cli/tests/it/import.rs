//! `switchhook call import`: checks a file, creates its calls once, and says which rows are refused.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::stack::{PROGRAM, Scratch, Stack, replaces_answers, switchhook, text, without_choice};

/// Rows enough for three batches.
const ROWS: usize = 230;

fn file(scratch: &Scratch, name: &str, content: &str) -> PathBuf {
    let path = scratch.0.join(name);
    std::fs::write(&path, content).expect("the file is written");
    path
}

fn import(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = switchhook(&[&["call", "import"], arguments].concat());
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn path(file: &std::path::Path) -> &str {
    file.to_str().expect("UTF-8")
}

fn calls(rows: usize) -> String {
    let rows: String = (0..rows).map(|row| format!("+4477009{row:05},apt-{row},2099-01-01T00:00:00Z\n")).collect();
    // Due in a year at most.
    let due = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24);
    format!("to,appointment_id,due_at\n{}", rows.replace("2099-01-01T00:00:00Z", &due.to_string()))
}

#[test]
fn plan_says_how_many_and_how_long_and_sends_nothing() {
    let scratch = Scratch::new();
    let rows = "provider,from,to,appointment_id\nretell,+442079460018,+447700900123,a\nretell,+442079460018,+447700900123,b\n\
                twilio,+442079460018,+447700900124,\nretell,+442079460018,12,\nretell,+442079460018,+447700900123,a\n";
    let file = file(&scratch, "calls.csv", rows);
    let (code, out, errors) = import(&[path(&file), "--plan", "--per-second", "0.5"]);
    let shown = file.display();
    assert_eq!(code, Some(1));
    assert_eq!(
        out,
        format!(
            "{shown}: 5 rows, 3 calls, created in about 1s\n  retell: 2 calls, dialled in at least 4s at 0.5 per second\n  \
             twilio: 1 call, dialled in at least 2s at 0.5 per second\n  the rate is that of --per-second\n  \
             1 of the calls are to a number that another row calls too\n  2 rows refused\n"
        )
    );
    assert!(errors.starts_with(&format!("{shown}:5: to: must be an E.164 number")), "{errors}");
    assert!(errors.contains(&format!("{shown}:6: is the same as line 2")), "{errors}");
    let (_, out, errors) = import(&[path(&file), "--plan", "--json"]);
    let plan: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((&plan["calls"], &plan["refused_rows"]), (&Value::from(3), &Value::from(2)));
    assert_eq!((&plan["refused"][0]["line"], &plan["refused"][0]["field"]), (&Value::from(5), &Value::from("to")));
    assert_eq!((&plan["rates_from"], &plan["create_seconds"]), (&Value::from("assumed"), &Value::from(1)));
    assert_eq!(plan["providers"]["retell"], serde_json::json!({"calls": 2, "per_second": 1.0, "seconds": 2}));
    assert_eq!(errors, "");
}

#[test]
fn plan_takes_the_rates_of_the_stack() {
    let (scratch, stack) = Stack::with_known_keys(&["--tick", "1h", "--dial-rates", "retell=0.5/20"]);
    let row = |provider: &str, number: usize| format!("{provider},+442079460018,+4477009{number:05}\n");
    let rows: String = (0..ROWS).map(|number| row("retell", number)).chain([row("vapi", ROWS)]).collect();
    let file = file(&scratch, "calls.csv", &format!("provider,from,to\n{rows}"));
    let (code, out, errors) = import(&[path(&file), "--plan", "--to", &stack.url]);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(
        out,
        format!(
            "{}: {} rows, {} calls, created in about 3s\n  retell: {ROWS} calls, dialled in at least 7m 40s at 0.5 per second\n  \
             vapi: 1 call that will wait: DialRates of the stack has no rate for it\n  \
             the rates are DialRates of the stack\n",
            file.display(),
            ROWS + 1,
            ROWS + 1
        )
    );
    let (_, out, _) = import(&[path(&file), "--plan", "--json", "--to", &stack.url]);
    let plan: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((&plan["rates_from"], &plan["providers"]["vapi"]["seconds"]), (&Value::from("stack"), &Value::Null));
    // A plan needs no stack.
    let (code, out, errors) = import(&[path(&file), "--plan", "--to", "http://127.0.0.1:1"]);
    assert!(errors.contains("DialRates of the stack are not known: "), "{errors}");
    assert_eq!(code, Some(0));
    assert!(out.contains("at 1 per second\n  the rate is the default of DialRates"), "{out}");
}

/// An import that is taken up again after the due times of its first rows.
#[test]
fn row_that_is_past_due_is_known_or_refused_and_stops_no_other_row() {
    let (scratch, stack) = Stack::quiet();
    let options = ["--provider", "retell", "--from-number", "+442079460018", "--to", &stack.url];
    // The limit is a day.
    let due = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24) + jiff::SignedDuration::from_secs(15);
    let first = format!("to,due_at\n+447700900123,{due}\n+447700900124,{due}\n");
    let file = file(&scratch, "calls.csv", &first);
    let (code, out, errors) = import(&[&[path(&file)], &options[..]].concat());
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{out}");
    let left = jiff::Timestamp::now().duration_until(due + jiff::SignedDuration::from_hours(24));
    std::thread::sleep(std::time::Duration::try_from(left).unwrap_or_default() + std::time::Duration::from_secs(1));

    let shown = file.display().to_string();
    let (code, out, errors) = import(&[&[path(&file)], &options[..]].concat());
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{out}");
    assert_eq!(out, format!("{shown}: 0 calls created, 2 created before\n"));
    std::fs::write(&file, format!("{first}+447700900125,{due}\n+447700900126,\n")).expect("the file is written");
    let (code, out, errors) = import(&[&[path(&file), "--plan"], &options[..]].concat());
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert!(out.starts_with(&format!("{shown}: 4 rows, 1 call, created in about 1s\n")), "{out}");
    assert!(
        out.ends_with("  3 rows due more than a day ago: refused, unless an earlier import created the call\n"),
        "{out}"
    );
    let (code, out, errors) = import(&[&[path(&file)], &options[..]].concat());
    assert_eq!((code, out), (Some(1), format!("{shown}: 1 call created, 2 created before, 1 row refused\n")));
    assert_eq!(errors, format!("{shown}:4: due_at: must be at most 1 day in the past\n"));
}

#[test]
fn rows_are_created_once_however_often_they_are_imported() {
    let (scratch, stack) = Stack::quiet();
    let file = file(&scratch, "calls.csv", &calls(ROWS));
    let options = ["--provider", "retell", "--from-number", "+442079460018", "--to", &stack.url];
    let (code, out, errors) = import(&[&[path(&file)], &options[..]].concat());
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{out}");
    assert_eq!(out, format!("{}: {ROWS} calls created, 0 created before\n", file.display()));
    // The next file has the same rows, one of them wrong, and ten more.
    let more = calls(ROWS + 10).lines().skip(1).map(|line| format!("{line}\n")).collect::<String>();
    let more = format!("to,appointment_id,due_at\n12,apt,\n{}", more.replace(&due_of(&more), &due_of(&read(&file))));
    std::fs::write(&file, more).expect("the file is written");
    let (code, _, errors) = import(&[&[path(&file)], &options[..]].concat());
    assert_eq!(code, Some(1));
    assert!(errors.contains("calls.csv:2: to: ") && errors.contains("nothing was created"), "{errors}");
    let (code, out, _) = import(&[&[path(&file), "--skip-refused", "--json"], &options[..]].concat());
    let result: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(code, Some(1));
    assert_eq!((&result["created"], &result["repeated"]), (&Value::from(10), &Value::from(ROWS)), "{result}");
    // Under another name the rows are other calls.
    let (_, out, _) =
        import(&[&[path(&file), "--skip-refused", "--json", "--name", "december"], &options[..]].concat());
    let result: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(result["created"], ROWS + 10);
    let (_, out, _) =
        import(&[&[path(&file), "--skip-refused", "--json", "--name", " december "], &options[..]].concat());
    let result: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((&result["created"], &result["repeated"]), (&json!(0), &json!(ROWS + 10)), "{result}");
}

/// A variable of the shell may be empty. Under each name, the calls are created again.
#[test]
fn name_that_is_empty_or_has_several_lines_is_refused() {
    let scratch = Scratch::new();
    let file = file(&scratch, "calls.csv", "provider,from,to\nretell,+442079460018,+447700900123\n");
    for name in ["", " ", "one\ntwo"] {
        let (code, out, errors) = import(&[path(&file), "--plan", "--name", name]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{name:?}: {errors}");
        assert!(errors.contains("--name"), "{name:?}: {errors}");
    }
}

/// The JSON must not look as if the other calls were created.
#[test]
fn import_that_a_refused_row_stops_says_in_json_that_it_created_no_call() {
    let scratch = Scratch::new();
    let rows = "provider,from,to\nretell,+442079460018,+447700900123\nretell,+442079460018,12\n";
    let file = file(&scratch, "calls.csv", rows);
    let (code, out, errors) = import(&[path(&file), "--json", "--to", "http://127.0.0.1:1"]);
    assert_eq!((code, errors.as_str()), (Some(1), ""));
    let result: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!((&result["created"], &result["repeated"]), (&json!(0), &json!(0)), "{result}");
    assert_eq!((&result["refused_rows"], &result["refused"][0]["line"]), (&json!(1), &json!(3)), "{result}");
    assert_eq!(result.get("calls"), None, "a plan has calls");
}

#[test]
fn terminal_shows_a_progress_bar() {
    let (scratch, stack) = Stack::quiet();
    let file = file(&scratch, "calls.csv", &calls(ROWS));
    let command = format!(
        "{} call import {} --provider retell --from-number +442079460018 --to {}",
        PROGRAM,
        path(&file),
        stack.url
    );
    // The program `script` runs a command on a terminal. Every Debian has it.
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).env("TERM", "xterm");
    let output = without_choice(&mut script).output().expect("script runs");
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains(&format!("/{ROWS} rows, ")), "{shown:?}");
    // The bar is wiped before the result is printed.
    assert!(shown.ends_with(&format!("{}: {ROWS} calls created, 0 created before\r\n", file.display())), "{shown:?}");
}

#[test]
fn row_that_the_stack_refuses_is_named_with_its_line() {
    let (scratch, stack) = Stack::quiet();
    let row = |to: &str| {
        format!(
            "{{\"provider\": \"retell\", \"from\": \"+442079460018\", \"to\": \"{to}\", \"idempotency_key\": \"one\"}}\n"
        )
    };
    let file = file(&scratch, "calls.jsonl", &row("+447700900123"));
    assert_eq!(import(&[path(&file), "--to", &stack.url]).0, Some(0));
    std::fs::write(&file, format!("\n{}", row("+447700900124"))).expect("the file is written");
    let (code, out, errors) = import(&[path(&file), "--to", &stack.url]);
    assert_eq!(
        (code, out),
        (Some(1), format!("{}: 0 calls created, 0 created before, 1 row refused\n", file.display()))
    );
    assert!(errors.contains("calls.jsonl:2: this idempotency key was used for another request"), "{errors}");
}

#[test]
fn import_needs_a_stack_and_a_file() {
    let scratch = Scratch::new();
    let file = file(&scratch, "calls.csv", "provider,from,to\nretell,+442079460018,+447700900123\n");
    let (code, _, errors) = import(&[path(&file), "--to", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("no answer from http://127.0.0.1:1"), "{errors}");
    let (code, _, errors) = import(&["calls.csv", "--to", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("could not read calls.csv"), "{errors}");
}

/// The second batch is carried out and its answer is lost. The same command then creates the rest, and nothing twice.
#[test]
fn import_that_failed_in_its_second_batch_goes_on_without_doubles() {
    let (scratch, stack) = Stack::quiet();
    let file = file(&scratch, "calls.csv", &calls(ROWS));
    let to = |url: &str| import(&[path(&file), "--provider", "retell", "--from-number", "+442079460018", "--to", url]);
    let (code, _, errors) = to(&replaces_answers(&stack.url, "POST /calls/batch", 1, 400));
    assert_eq!(code, Some(2));
    assert!(errors.contains(&format!("100 of {ROWS} rows are done; run the same command again")), "{errors}");
    let records = text(&stack.switchhook(&["audit", "list", "--json"]).stdout);
    let records: Value = serde_json::from_str(&records).expect("one JSON object");
    let finished = records["records"].as_array().expect("records").iter().find(|record| record["moment"] == "finished");
    assert_eq!(finished.expect("a result")["counts"], json!({"done": 100, "unchanged": 0, "skipped": ROWS - 100}));
    let (code, out, errors) = to(&stack.url);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(out, format!("{}: 30 calls created, 200 created before\n", file.display()));
}

fn read(file: &std::path::Path) -> String {
    std::fs::read_to_string(file).expect("the file is there")
}

/// The due time of the last row.
fn due_of(rows: &str) -> String {
    rows.lines().last().and_then(|row| row.split(',').nth(2)).expect("three cells").to_owned()
}
