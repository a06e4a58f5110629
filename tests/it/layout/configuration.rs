//! Configuration: what the functions read, what the template sets, and what `docs/configuration.md` lists.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use switchhook_aws::config::Environment;
use switchhook_domain::DIALS_RETENTION_MIN;
use switchhook_providers::DEDUPE_RETENTION;

use super::{TEMPLATE, names, scalar};
use crate::files::{Page, yaml};

const PAGE: &str = "docs/configuration.md";
/// Variables that every function reads before its configuration. The page lists them as read by `all`.
const READ_BY_ALL: [&str; 1] = ["STACK_NAME"];

/// Variables that each function reads from its environment.
fn variables_read() -> BTreeMap<&'static str, BTreeSet<String>> {
    /// An environment that records which variables are read. Each is `30`, if that is a value.
    fn recording(read: &RefCell<BTreeSet<String>>) -> Environment<impl Fn(&str) -> Option<String>> {
        Environment::new(|name| {
            read.borrow_mut().insert(name.to_owned());
            let value = match name {
                "CALLING_WINDOW" => "",
                "OUTCOME_PROVIDERS" => "retell",
                "DIAL_RATES" => "retell=1",
                "INDEX_SHARDS" => "4",
                "BLOCK_ON_REQUEST" | "INDEX_NUMBERS" => "true",
                _ => "30",
            };
            Some(value.to_owned())
        })
    }
    let mut all = BTreeMap::new();
    macro_rules! function {
        ($name:literal, $config:path) => {
            let read = RefCell::default();
            <$config>::from_environment(recording(&read)).unwrap();
            all.insert($name, read.into_inner());
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

#[test]
fn template_sets_exactly_what_each_function_reads() {
    let template = yaml(TEMPLATE);
    let globals = names(&template["Globals"]["Function"]["Environment"]["Variables"]);
    assert_eq!(
        globals,
        BTreeSet::from(["STACK_NAME", "AWS_ENDPOINT_URL"].map(str::to_owned)),
        "variables that every function reads"
    );
    for (function, read) in variables_read() {
        let resource = format!("{}{}Function", function[..1].to_uppercase(), &function[1..]);
        let properties = &template["Resources"][resource]["Properties"];
        assert_eq!(names(&properties["Environment"]["Variables"]), read, "{function}");
    }
}

#[test]
fn configuration_page_lists_exactly_what_each_function_reads() {
    let page = Page::read(PAGE);
    let mut listed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in page.table(&["variable", "read by", "meaning"]) {
        let name = &row[0];
        if READ_BY_ALL.contains(&name.as_str()) {
            assert_eq!(row[1], "all", "{name}");
            continue;
        }
        for function in row[1].split(", ") {
            let is_new = listed.entry(function.to_owned()).or_default().insert(name.clone());
            assert!(is_new, "{name} is listed twice");
        }
    }
    let read: BTreeMap<String, BTreeSet<String>> =
        variables_read().into_iter().map(|(function, read)| (function.to_owned(), read)).collect();
    assert_eq!(listed, read);
}

#[test]
fn configuration_page_lists_every_parameter_with_its_default() {
    let page = Page::read(PAGE);
    let mut listed = BTreeMap::new();
    for row in page.table(&["parameter", "default", "meaning"]) {
        assert!(!row[2].is_empty(), "{} has no meaning in the table", row[0]);
        assert_eq!(listed.insert(row[0].clone(), row[1].clone()), None, "{} is listed twice", row[0]);
    }
    let template = yaml(TEMPLATE);
    let parameters = template["Parameters"].as_object().unwrap().iter();
    let defaults = parameters.filter(|(_, parameter)| !parameter["Default"].is_null());
    let defaults: BTreeMap<String, String> =
        defaults.map(|(name, parameter)| (name.clone(), scalar(&parameter["Default"]))).collect();
    assert_eq!(listed, defaults);
}

#[test]
fn deploy_page_lists_every_output() {
    let page = Page::read("docs/deploy.md");
    let rows = page.table(&["output", "meaning"]).iter();
    let listed: BTreeSet<String> = rows.flat_map(|row| row[0].split(", ").map(str::to_owned)).collect();
    assert_eq!(listed, names(&yaml(TEMPLATE)["Outputs"]));
}

#[test]
fn api_page_lists_every_request() {
    let page = Page::read("docs/api.md");
    let rows = page.table(&["request", "purpose"]).iter();
    let without_query = |request: &str| request.split('?').next().unwrap().to_owned();
    let listed: BTreeSet<String> = rows.flat_map(|row| row[0].split(", ").map(without_query)).collect();
    let openapi = yaml("infra/openapi.yaml");
    let mut described = BTreeSet::new();
    for (path, item) in openapi["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|name| *name != "parameters");
        described.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    assert_eq!(listed, described);
}

#[test]
fn missing_variables_are_reported_all_at_once() {
    let nothing = Environment::new(|_| None);
    let error = switchhook_ingress::Config::from_environment(nothing).unwrap_err().to_string();
    for name in &variables_read()["ingress"] {
        assert!(error.contains(name.as_str()), "{error}");
    }
}

/// Otherwise, a request with the key of an expired call would get the dials of that call.
#[test]
fn rows_of_calls_are_kept_for_longer_than_their_dials() {
    let least = yaml(TEMPLATE)["Parameters"]["CallRetentionDays"]["MinValue"].as_u64().unwrap();
    assert!(least * 24 * 60 * 60 > DIALS_RETENTION_MIN.as_secs(), "{least} days");
}

/// DynamoDB restores a table to 35 days ago. Some days pass before its calls are dialled again.
#[test]
fn dials_are_recorded_until_after_a_recovery() {
    let days = DIALS_RETENTION_MIN.as_secs() / (24 * 60 * 60);
    assert!(days >= 35 + 7, "{days} days");
}

#[test]
fn retention_is_never_shorter_than_what_signatures_need() {
    let least = DEDUPE_RETENTION.as_secs() / (24 * 60 * 60);
    let parameter = &yaml(TEMPLATE)["Parameters"]["InboxRetentionDays"];
    assert_eq!(parameter["MinValue"], Value::from(least));
    let config = |days: u64| {
        let days = days.to_string();
        let text = move |name: &str| {
            Some(match name {
                "INBOX_RETENTION_DAYS" => days.clone(),
                "INDEX_SHARDS" => "4".to_owned(),
                _ => "text".to_owned(),
            })
        };
        switchhook_ingress::Config::from_environment(Environment::new(text))
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(config(least), Ok(()));
    assert_eq!(config(least - 1), Err(format!("bad configuration: INBOX_RETENTION_DAYS must be at least {least}")));
}

#[test]
fn page_names_the_longest_value_of_each_parameter() {
    let page = Page::read(PAGE);
    let rows: Vec<&Vec<String>> = page.tables.iter().flat_map(|table| &table.rows).collect();
    for (name, parameter) in yaml(TEMPLATE)["Parameters"].as_object().unwrap() {
        let Some(length_max) = parameter.get("MaxLength") else { continue };
        // Its pattern allows no longer value.
        if name == "IndexShards" {
            continue;
        }
        let row = rows.iter().find(|row| row[0] == *name).unwrap();
        let limit = format!("at most {length_max} characters");
        assert!(row.iter().any(|cell| cell.contains(&limit)), "{name}: {limit}");
        if name == "OutcomeProviders" {
            let described = include_str!("../../../docs/providers/configured.md");
            assert!(described.contains(&format!("`{name}`, which has room for {length_max} characters")));
        }
    }
}

mod random {
    use proptest::prelude::*;
    use proptest::string::{RegexGeneratorStrategy, string_regex};
    use switchhook_aws::shards::Shards;
    use switchhook_domain::{CallingWindow, ProviderSet, ProviderSetError};
    use switchhook_providers::{DialRates, DialRatesError};

    use super::*;

    /// Texts that the pattern of a parameter allows, and some that only its lookahead refuses: a generator knows no lookahead.
    fn allowed(parameter: &str) -> RegexGeneratorStrategy<String> {
        // A digit of CloudFormation is one of ASCII.
        let pattern = scalar(&yaml(TEMPLATE)["Parameters"][parameter]["AllowedPattern"]).replace(r"\d", "[0-9]");
        let pattern = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')).unwrap();
        let Some((before, lookahead)) = pattern.split_once("(?!") else { return string_regex(pattern).unwrap() };
        let mut depth = 1;
        let end = lookahead.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        string_regex(&format!("{before}{}", &lookahead[end.unwrap() + 1..])).unwrap()
    }

    proptest! {
        #![proptest_config(switchhook_random::config(1_000, None))]

        #[test]
        fn rates_that_the_template_allows_can_be_read(text in allowed("DialRates")) {
            let error = text.parse::<DialRates>().err();
            prop_assert!(matches!(error, None | Some(DialRatesError::Twice(_))), "{text}: {error:?}");
        }

        #[test]
        fn windows_that_the_template_allows_can_be_read(text in allowed("CallingWindow")) {
            let window = text.parse::<CallingWindow>();
            prop_assert!(text.is_empty() || window.is_ok(), "{text}");
        }

        #[test]
        fn providers_that_the_template_allows_can_be_read(text in allowed("OutcomeProviders")) {
            let error = text.parse::<ProviderSet>().err();
            // Its `MaxLength` keeps a text from naming too many providers.
            prop_assert!(matches!(error, None | Some(ProviderSetError::Full)), "{text}: {error:?}");
        }

        #[test]
        fn shards_that_the_template_allows_can_be_read(text in allowed("IndexShards")) {
            prop_assert!(text.parse::<Shards>().is_ok(), "{text}");
        }
    }
}
