//! `switchhook providers check` and `switchhook send` with providers that the file describes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::stack::{PROGRAM, Scratch, Stack, switchhook, text, without_choice};

const PLAIN: &str = "a key of the tests, as long as it must be";
const BASE64: &str = "c2VjcmV0IG9mIHRoZSBwcm92aWRlcg==";
const WHSEC: &str = "whsec_c2VjcmV0IG9mIHRoZSBwcm92aWRlcg==";

/// Signatures of every form that an entry can name, each with a key.
fn signatures() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("x-standard", WHSEC, json!({"scheme": "standard_webhooks"})),
        ("x-hmac", PLAIN, json!({"scheme": "hmac", "header": "x-sig"})),
        ("x-time", PLAIN, json!({"scheme": "hmac", "header": "x-sig", "timestamp_header": "x-time"})),
        (
            "x-template",
            BASE64,
            json!({
                "scheme": "hmac", "header": "x-sig", "algorithm": "sha512", "timestamp_header": "x-time",
                "timestamp_unit": "milliseconds", "signed": "v0:{timestamp}:{body}", "prefix": "v0=", "key_encoding": "base64",
            }),
        ),
        (
            "x-fields",
            WHSEC,
            json!({
                "scheme": "hmac", "header": "x-sig", "timestamp_field": "t", "signature_field": "v1", "key_encoding": "whsec",
            }),
        ),
        (
            "x-list",
            PLAIN,
            json!({
                "scheme": "hmac", "header": "x-sig", "separator": "comma", "id_header": "x-id", "algorithm": "sha1",
                "encoding": "base64",
            }),
        ),
        ("x-secret", PLAIN, json!({"scheme": "shared_secret", "header": "x-key"})),
        ("x-bearer", PLAIN, json!({"scheme": "shared_secret", "header": "authorization"})),
    ]
}

fn entry(key: &str, signature: &Value) -> Value {
    json!({
        "keys": [key],
        "signature": signature,
        "events": {
            "event_id": "/id", "type": "/kind", "appointment_id": "/apt",
            "rules": [{"when": {"type": "ring"}, "event": "ringing"}],
        },
    })
}

fn written(scratch: &Scratch, name: &str, document: &Value) -> PathBuf {
    let path = scratch.0.join(name);
    std::fs::write(&path, document.to_string()).expect("the file is written");
    path
}

/// File with a provider for each signature.
fn providers_file(scratch: &Scratch) -> PathBuf {
    let entries = signatures().into_iter().map(|(name, key, signature)| (name.to_owned(), entry(key, &signature)));
    written(scratch, "providers.json", &Value::from(entries.collect::<serde_json::Map<String, Value>>()))
}

/// Another key of the same form.
fn other_key(key: &str) -> &str {
    match key {
        WHSEC => "whsec_YW5vdGhlciBzZWNyZXQgb2YgdGhlIHRlc3Rz",
        BASE64 => "YW5vdGhlciBzZWNyZXQgb2YgdGhlIHRlc3Rz",
        _ => "another key of the tests, which no entry has",
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn send_signs_by_every_scheme_that_an_entry_can_name() {
    let scratch = Scratch::new();
    let file = providers_file(&scratch);
    let stack = Stack::start(&["--providers", path_text(&file), "--tick", "1h"]);
    let send = |name: &str, providers: &Path, body: &Path| {
        let (providers, body) = (path_text(providers), path_text(body));
        let output = stack.switchhook(&["send", "--provider", name, "--providers", providers, "--file", body]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for (name, key, signature) in signatures() {
        let body = |kind: &str| json!({"id": kind, "kind": kind, "apt": name});
        let ring = written(&scratch, "ring.json", &body("ring"));
        let (code, printed, errors) = send(name, &file, &ring);
        assert_eq!(code, Some(0), "{name}: {printed}{errors}");
        assert!(printed.starts_with("200 ") && printed.contains("accepted"), "{name}: {printed}");
        assert!(send(name, &file, &ring).1.contains("already_processed"), "{name}");
        let mood = written(&scratch, "mood.json", &body("mood"));
        assert!(send(name, &file, &mood).1.contains("recorded"), "{name}");
        // Nothing but the key is wrong.
        let other = written(&scratch, "other.json", &json!({name: entry(other_key(key), &signature)}));
        let (code, printed, _) = send(name, &other, &written(&scratch, "late.json", &body("late")));
        assert_eq!(code, Some(1), "{name}: {printed}");
        assert!(printed.starts_with("401 ") && printed.contains("invalid_signature"), "{name}: {printed}");
    }
}

#[test]
fn recorded_webhook_is_replayed_after_the_corrected_entry_is_stored() {
    let scratch = Scratch::new();
    let hmac = json!({"scheme": "hmac", "header": "x-sig"});
    let file = written(&scratch, "providers.json", &json!({"x-acme": entry(PLAIN, &hmac)}));
    let stack = Stack::start(&["--providers", path_text(&file), "--tick", "1h"]);
    let run = |arguments: &[&str]| {
        let output = stack.switchhook(arguments);
        (output.status.code(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    let body = written(&scratch, "body.json", &json!({"id": "e1", "kind": "hangup", "apt": "apt_1"}));
    let (_, printed) =
        run(&["send", "--provider", "x-acme", "--providers", path_text(&file), "--file", path_text(&body)]);
    assert!(printed.contains("recorded"), "{printed}");
    let replay = ["replay", "--since", "1h", "--provider", "x-acme"];
    let (code, printed) = run(&replay);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("Selected items with nothing to do: 1."), "{printed}");

    let mut better = entry(PLAIN, &hmac);
    better["events"]["rules"] = json!([{"when": {"type": "hangup"}, "event": "busy"}]);
    let better = written(&scratch, "better.json", &json!({"x-acme": better}));
    let (code, printed) = run(&["providers", "put", path_text(&better), "--yes"]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = run(&[&replay[..], &["--yes", "--reason", "a rule for hangups"]].concat());
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("appointment:apt_1") && printed.contains("busy"), "{printed}");
    assert!(printed.contains("1 done, 0 unchanged, 0 skipped"), "{printed}");
}

#[test]
fn send_needs_the_entry_of_a_provider_that_the_file_describes() {
    let scratch = Scratch::new();
    let file = providers_file(&scratch);
    let body = written(&scratch, "body.json", &json!({"id": "e1", "kind": "ring", "apt": "a"}));
    let sent = |provider: &str, signing: &[&str]| {
        let command = ["send", "--provider", provider, "--file", path_text(&body), "--to", "http://127.0.0.1:1"];
        let output = switchhook(&[&command[..], signing].concat());
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let errors = sent("x-hmac", &["--key", PLAIN]);
    assert!(errors.contains("only the providers file says how x-hmac signs"), "{errors}");
    assert!(errors.contains("add it with --providers"), "{errors}");
    let errors = sent("x-nobody", &["--providers", path_text(&file)]);
    assert!(errors.contains("has no keys of x-nobody") && !errors.contains(PLAIN), "{errors}");
}

/// The entry has the public key of the provider, which signs nothing. Whoever tries the entry makes a pair of keys.
#[test]
fn send_signs_with_the_private_key_to_a_public_one() {
    // Keys of RFC 8032, section 7.1, test 1.
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let private = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----";
    let scratch = Scratch::new();
    let signature = json!({"scheme": "ed25519", "header": "x-sig", "timestamp_header": "x-time"});
    let file = written(&scratch, "providers.json", &json!({"x-acme": entry(public, &signature)}));
    let (check, errors) = {
        let output = switchhook(&["providers", "check", path_text(&file)]);
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(check, Some(0), "{errors}");
    let stack = Stack::start(&["--providers", path_text(&file), "--tick", "1h"]);
    let body = written(&scratch, "ring.json", &json!({"id": "e1", "kind": "ring", "apt": "apt_1"}));
    let send = |more: &[&str]| {
        let command = ["send", "--provider", "x-acme", "--providers", path_text(&file), "--file", path_text(&body)];
        let output = stack.switchhook(&[&command[..], more].concat());
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, _, errors) = send(&[]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("add the private key with --key"), "{errors}");
    let (code, _, errors) = send(&["--key", "no private key"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("--key cannot sign for x-acme") && !errors.contains("no private key"), "{errors}");
    let (code, printed, errors) = send(&["--key", private]);
    assert_eq!(code, Some(0), "{printed}{errors}");
    assert!(printed.starts_with("200 ") && printed.contains("accepted"), "{printed}");
    // The same key from standard input.
    let again = written(&scratch, "again.json", &json!({"id": "e2", "kind": "ring", "apt": "apt_2"}));
    let command = ["send", "--provider", "x-acme", "--providers", path_text(&file), "--file", path_text(&again)];
    let mut program = Command::new(PROGRAM);
    without_choice(program.args(command).args(["--key", "-", "--to", &stack.url]));
    let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    writeln!(program.stdin.take().expect("a pipe"), "{private}").expect("the key is read");
    let output = program.wait_with_output().expect("the program ends");
    assert!(text(&output.stdout).starts_with("200 "), "{}", text(&output.stdout));
    // The key of another pair.
    let (_, printed, _) = send(&["--key", &"01".repeat(32)]);
    assert!(printed.starts_with("401 "), "{printed}");
}

#[test]
fn check_reads_entries_of_described_providers_and_names_each_wrong_field() {
    let scratch = Scratch::new();
    let file = providers_file(&scratch);
    let output = switchhook(&["providers", "check", path_text(&file)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut names: Vec<&str> = signatures().into_iter().map(|(name, _, _)| name).collect();
    names.sort_unstable();
    let lines: String = names.iter().map(|name| format!("{name}: 1 key, places no calls\n")).collect();
    assert_eq!(text(&output.stdout), lines);

    let mut wrong = entry(PLAIN, &json!({"scheme": "hmac"}));
    wrong["events"]["call_id"] = json!("$.call.id");
    wrong["events"]["rules"][0]["event"] = json!("hangup");
    let file = written(&scratch, "wrong.json", &json!({"x-acme": wrong, "acme": entry(PLAIN, &json!({}))}));
    let output = switchhook(&["providers", "check", path_text(&file)]);
    let errors = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()), "{errors}");
    for problem in [
        "x-acme.signature.header",
        "x-acme.events.call_id: not a JSON pointer",
        "x-acme.events.rules[0].event",
        "unknown provider \"acme\"",
    ] {
        assert!(errors.contains(problem), "{problem} in {errors}");
    }
    assert!(!errors.contains(PLAIN) && !errors.contains("hangup"), "{errors}");
}
