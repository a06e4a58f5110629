//! What the workspace, the template, the documentation and the local cloud say of the same thing.

#![expect(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use switchhook_aws::config::Environment;
use switchhook_domain::Provider;
use switchhook_local::{
    DEFAULT_RETRY_POLICY, DIAL_QUEUE, EVENTS_DEAD_LETTER_QUEUE, EVENTS_QUEUE, RELAY_FAILURES_QUEUE, stack_queues,
};
use switchhook_providers::{DEDUPE_RETENTION, api_url};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

// Dependencies

/// For each package, what it is built on; what only its tests use is left out.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let built_on = package["dependencies"].as_array().unwrap().iter();
            let built_on = built_on.filter(|dependency| dependency["kind"] != "dev");
            let names = built_on.map(|dependency| dependency["name"].as_str().unwrap().to_owned());
            (package["name"].as_str().unwrap().to_owned(), names.collect())
        })
        .collect()
}

/// Features that only tests ask for would have everything above them built twice, once for `make test` and once for `make demo`.
#[test]
fn tests_and_demo_are_built_of_the_same_crates() {
    let tree = |edges: &str| {
        let tree = Command::new(env!("CARGO"))
            .args([
                "tree",
                "--workspace",
                "--locked",
                "--offline",
                "--prefix",
                "none",
                "--format",
                "{p} {f}",
                "--edges",
                edges,
            ])
            .current_dir(root())
            .output()
            .unwrap();
        assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
        let lines = String::from_utf8(tree.stdout).unwrap();
        lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect::<BTreeSet<String>>()
    };
    let (demo, tests) = (tree("no-dev,features"), tree("features"));
    let otherwise: Vec<&String> = demo.difference(&tests).collect();
    assert!(otherwise.is_empty(), "give these the features that tests give them, in tests/Cargo.toml: {otherwise:?}");
}

/// Where a package stands: it may use those on lower floors.
fn floor(package: &str) -> u8 {
    match package {
        "switchhook-domain" | "switchhook-random" => 0,
        "switchhook-providers" => 1,
        "switchhook-aws" => 2,
        "switchhook-local" => 4,
        "switchhook-cli" | "switchhook-tests" => 5,
        function => {
            assert!(
                root().join(function.replace("switchhook-", "functions/")).is_dir(),
                "where does {function} stand?"
            );
            3
        }
    }
}

#[test]
fn dependencies_point_one_way() {
    for (package, built_on) in dependencies() {
        for ours in built_on.iter().filter(|name| name.starts_with("switchhook-")) {
            assert!(floor(ours) < floor(&package), "{package} must not depend on {ours}");
        }
    }
}

#[test]
fn core_is_pure() {
    let dependencies = dependencies();
    let of = |package: &str| dependencies[package].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("switchhook-domain"), ["jiff", "serde", "sha2", "thiserror"]);
    let io = ["aws", "tokio", "lambda", "hyper", "tracing", "reqwest", "ureq", "getrandom", "rand", "fastrand"];
    for name in of("switchhook-providers") {
        assert!(!io.iter().any(|io| name.starts_with(io)), "providers is pure, and {name} is not");
    }
}

#[test]
fn only_the_edge_knows_the_sdk() {
    let knows = |built_on: &BTreeSet<String>| {
        built_on
            .iter()
            .any(|name| name.starts_with("aws-sdk-") || name.starts_with("aws-smithy") || name == "aws-config")
    };
    let who: Vec<String> =
        dependencies().into_iter().filter(|(_, built_on)| knows(built_on)).map(|(package, _)| package).collect();
    assert_eq!(who, ["switchhook-aws", "switchhook-local"]);
}

// Configuration

/// What each function asks its environment for.
fn variables_read() -> BTreeMap<&'static str, BTreeSet<String>> {
    fn recording(read: &RefCell<BTreeSet<String>>) -> Environment<impl Fn(&str) -> Option<String>> {
        Environment::new(|name| {
            read.borrow_mut().insert(name.to_owned());
            Some("30".to_owned())
        })
    }
    let mut all = BTreeMap::new();
    macro_rules! function {
        ($name:literal, $config:path) => {
            let read = RefCell::default();
            <$config>::from_environment(recording(&read)).unwrap();
            let mut read = read.into_inner();
            // Where a provider without an API has it is asked, and means nothing: it is never dialled.
            for provider in Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_none()) {
                read.remove(&format!("{}_API_URL", provider.as_str().to_uppercase()));
            }
            all.insert($name, read);
        };
    }
    function!("ingress", switchhook_ingress::Config);
    function!("consumer", switchhook_consumer::Config);
    function!("relay", switchhook_relay::Config);
    function!("scheduler", switchhook_scheduler::Config);
    function!("dialer", switchhook_dialer::Config);
    function!("reconciler", switchhook_reconciler::Config);
    function!("api", switchhook_api::Config);
    all
}

/// The lines of a block of the template: those below `head` that are indented further.
fn block(text: &str, head: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| line.trim() == head).unwrap_or_else(|| panic!("no {head}"));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let within = |line: &&&str| line.trim().is_empty() || indent(line) > indent(lines[start]);
    lines[start + 1..].iter().take_while(within).map(|line| format!("{line}\n")).collect()
}

/// The value of a key in a block.
fn value(block: &str, key: &str) -> String {
    let found = block.lines().find_map(|line| line.trim().strip_prefix(&format!("{key}: ")));
    found.unwrap_or_else(|| panic!("no {key} in {block}")).to_owned()
}

fn keys(block: &str) -> BTreeSet<String> {
    block.lines().filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned())).collect()
}

#[test]
fn template_sets_exactly_what_each_function_reads() {
    let template = read("template.yaml");
    let globals = keys(&block(&block(&template, "Globals:"), "Variables:"));
    assert_eq!(
        globals,
        BTreeSet::from(["RUST_LOG", "STACK_NAME", "AWS_ENDPOINT_URL"].map(str::to_owned)),
        "read by all"
    );
    for (function, read) in variables_read() {
        let name = format!("{}{}Function:", function[..1].to_uppercase(), &function[1..]);
        let set = keys(&block(&block(&template, &name), "Variables:"));
        assert_eq!(set, read, "{function}");
    }
}

/// Unlike what every function reads before its configuration.
fn listed_for_one(name: &str) -> bool {
    !["RUST_LOG", "STACK_NAME"].contains(&name)
}

#[test]
fn readme_lists_exactly_what_each_function_reads() {
    let readme = read("README.md");
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in readme.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`');
        if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') && listed_for_one(name) {
            for function in cells[2].split(", ") {
                listed.entry(function.to_owned()).or_default().insert(name.to_owned());
            }
        }
    }
    let read: BTreeMap<String, BTreeSet<String>> =
        variables_read().into_iter().map(|(function, read)| (function.to_owned(), read)).collect();
    assert_eq!(listed, read);
}

/// The default of each parameter of the template. (A group of parameters is called `Parameters` too, and is indented.)
fn parameters() -> BTreeMap<String, String> {
    let template = read("template.yaml");
    let (_, after) = template.split_once("\nParameters:\n").unwrap();
    let mut defaults = BTreeMap::new();
    let mut name = String::new();
    for line in after.lines().take_while(|line| line.is_empty() || line.starts_with(' ')) {
        let indent = line.len() - line.trim_start().len();
        if indent == 2 {
            name = line.trim().trim_end_matches(':').to_owned();
        } else if let Some(default) = line.strip_prefix("    Default: ") {
            defaults.insert(name.clone(), default.trim_matches('\'').to_owned());
        }
    }
    defaults
}

#[test]
fn readme_lists_every_parameter_with_its_default() {
    let readme = read("README.md");
    let (_, after) = readme.split_once("\n| parameter | default | what |\n").unwrap();
    let mut listed = BTreeMap::new();
    for row in after.lines().take_while(|line| line.starts_with('|')).skip(1) {
        let cells: Vec<&str> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        assert!(!cells[3].is_empty(), "what is {row}");
        assert_eq!(listed.insert(cells[1].to_owned(), cells[2].to_owned()), None, "{row} is there twice");
    }
    assert_eq!(listed, parameters());
}

#[test]
fn missing_variables_are_reported_all_at_once() {
    let nothing = Environment::new(|_| None);
    let error = switchhook_ingress::Config::from_environment(nothing).unwrap_err().to_string();
    for name in &variables_read()["ingress"] {
        assert!(error.contains(name.as_str()), "{error}");
    }
}

#[test]
fn retention_is_never_shorter_than_what_signatures_need() {
    let least = DEDUPE_RETENTION.as_secs() / (24 * 60 * 60);
    assert_eq!(value(&block(&read("template.yaml"), "InboxRetentionDays:"), "MinValue"), least.to_string());
    let config = |days: u64| {
        let days = days.to_string();
        let text =
            move |name: &str| Some(if name == "INBOX_RETENTION_DAYS" { days.clone() } else { "text".to_owned() });
        switchhook_ingress::Config::from_environment(Environment::new(text))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(config(least), Ok(()));
    assert_eq!(config(least - 1), Err(format!("bad configuration: INBOX_RETENTION_DAYS must be at least {least}")));
}

// The local cloud

/// A number that stands as a constant in the source of the local cloud.
fn constant(path: &str, name: &str) -> String {
    let source = read(path);
    let line = source.lines().find(|line| line.contains(&format!("const {name}: "))).unwrap();
    line.split_once(" = ").unwrap().1.trim_end_matches(';').replace('_', "")
}

#[test]
fn local_queues_are_those_of_the_template() {
    let template = read("template.yaml");
    let max_receive_count = value(&block(&template, "MaxReceiveCount:"), "Default");
    for queue in stack_queues() {
        let resource = match queue.name.as_str() {
            EVENTS_QUEUE => "EventsQueue:",
            EVENTS_DEAD_LETTER_QUEUE => "EventsDlq:",
            RELAY_FAILURES_QUEUE => "RelayFailuresQueue:",
            DIAL_QUEUE => "DialQueue:",
            other => panic!("the template has no {other}"),
        };
        let resource = block(&template, resource);
        assert_eq!(queue.fifo, resource.contains("FifoQueue: true"), "{}", queue.name);
        // SQS's own default where the template says nothing.
        let timeout = if resource.contains("VisibilityTimeout") {
            value(&resource, "VisibilityTimeout")
        } else {
            "30".to_owned()
        };
        assert_eq!((queue.visibility_timeout_ms / 1_000).to_string(), timeout, "{}", queue.name);
        match queue.redrive_policy {
            Some(redrive) => {
                assert_eq!(value(&resource, "maxReceiveCount"), "!Ref MaxReceiveCount");
                assert_eq!(redrive.max_receive_count.to_string(), max_receive_count);
                assert_eq!(redrive.dead_letter_queue, EVENTS_DEAD_LETTER_QUEUE);
            }
            None => assert!(!resource.contains("RedrivePolicy"), "{}", queue.name),
        }
    }
    assert_eq!(max_receive_count, switchhook_tests::MAX_RECEIVE_COUNT.to_string());
}

#[test]
fn local_batches_and_retentions_are_those_of_the_template() {
    let template = read("template.yaml");
    let of = |resource: &str, key: &str| value(&block(&template, resource), key);
    let cloud = "local/src/stack.rs";
    assert_eq!(constant(cloud, "QUEUE_BATCH"), of("ConsumerMapping:", "BatchSize"));
    assert_eq!(constant(cloud, "STREAM_BATCH"), of("RelayMapping:", "BatchSize"));
    assert_eq!(constant(cloud, "DIAL_BATCH"), of("DialerMapping:", "BatchSize"));
    assert_eq!(constant(cloud, "CONCURRENT_DIALS_PER_PROVIDER"), of("ConcurrentDialsPerProvider:", "Default"));
    let seconds = |hours: &str| hours.parse::<u32>().unwrap() * 3_600;
    let age = constant(cloud, "RECORD_AGE_MAX");
    let hours = age.strip_prefix("Duration::fromsecs(").and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(seconds(hours).to_string(), of("RelayMapping:", "MaximumRecordAgeInSeconds"));
    for (name, parameter) in [("INBOX_RETENTION", "InboxRetentionDays:"), ("CALL_RETENTION", "CallRetentionDays:")] {
        let retention = constant(cloud, name);
        let days = retention.strip_prefix("Duration::fromsecs(").and_then(|rest| rest.split(' ').next()).unwrap();
        assert_eq!(days, value(&block(&template, parameter), "Default"), "{name}");
    }
}

#[test]
fn local_calls_are_tried_again_as_the_template_says() {
    let template = read("template.yaml");
    let default = |parameter: &str| value(&block(&template, parameter), "Default").parse::<u32>().unwrap();
    assert_eq!(u32::from(DEFAULT_RETRY_POLICY.attempts_max), default("RetryAttemptsMax:"));
    assert_eq!(DEFAULT_RETRY_POLICY.delay_seconds, default("RetryDelaySeconds:"));
    assert_eq!(DEFAULT_RETRY_POLICY.delay_max_seconds, default("RetryDelayMaxSeconds:"));
    const { assert!(!DEFAULT_RETRY_POLICY.voicemail) };
}

#[test]
fn whoever_takes_messages_has_a_sixth_of_their_visibility_timeout() {
    let template = read("template.yaml");
    for (function, timeout_max, queue) in
        [("ConsumerFunction:", 10, "EventsQueue:"), ("DialerFunction:", 30, "DialQueue:")]
    {
        let timeout: u32 = value(&block(&template, function), "Timeout").parse().unwrap();
        let visibility: u32 = value(&block(&template, queue), "VisibilityTimeout").parse().unwrap();
        assert!(visibility >= 6 * timeout, "{queue} {visibility} s of {timeout} s");
        assert!(timeout <= timeout_max, "{function}");
    }
}

#[test]
fn dialer_outlives_the_wait_for_an_answer_and_for_its_turn() {
    let template = read("template.yaml");
    let timeout: f64 = value(&block(&template, "DialerFunction:"), "Timeout").parse().unwrap();
    let answer = constant("shared/aws/src/provider.rs", "REQUEST_TIMEOUT");
    let answer: f64 = answer.trim_start_matches("Duration::fromsecs(").trim_end_matches(')').parse().unwrap();
    let slowest = constant("shared/providers/src/config/pacing.rs", "PER_SECOND_MIN");
    // At that rate one lane is left, and both waits run side by side.
    let turn = 1.0 / slowest.parse::<f64>().unwrap();
    assert!(2.0 * answer.max(turn) < timeout, "{answer} s and {turn} s in {timeout} s");
}

#[test]
fn dial_queue_forgets_no_claim_before_it_expires() {
    let template = read("template.yaml");
    let retention: u64 = value(&block(&template, "DialQueue:"), "MessageRetentionPeriod").parse().unwrap();
    assert!(retention > switchhook_scheduler::LEASE.as_secs());
}

#[tokio::test(start_paused = true)]
async fn local_tables_are_those_of_the_template() {
    let template = read("template.yaml");
    let source = read("local/src/tables.rs");
    for table in ["InboxTable:", "CallsTable:"] {
        let declared = block(&template, table);
        let indexes: Vec<&str> =
            declared.lines().filter_map(|line| line.trim().strip_prefix("- IndexName: ")).collect();
        assert!(!indexes.is_empty());
        for index in indexes {
            assert!(source.contains(&format!("\"IndexName\": \"{index}\"")), "{index}");
        }
        let attributes = declared.lines().filter_map(|line| line.trim().strip_prefix("- {AttributeName: "));
        for attribute in attributes {
            let (name, rest) = attribute.split_once(',').unwrap();
            let (kind, of) = rest.trim().trim_end_matches('}').split_once(": ").unwrap();
            let as_json = format!("{{\"AttributeName\": \"{name}\", \"{kind}\": \"{of}\"}}");
            assert!(source.contains(&as_json), "{as_json}");
        }
    }
}
