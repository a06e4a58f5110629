//! State diagrams of the documentation have the edges of the machines, the page about privacy names every queue, and alarms get a topic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use switchhook_domain::{EventKind, LIFECYCLE, Machine, OUTCOME, State};

use super::TEMPLATE;
use crate::files::{CodeBlock, Page, files_with_extension, read, yaml};

/// Names of the queues on the page about privacy, by their names in the templates.
const QUEUES: [(&str, &str); 7] = [
    ("DialQueue", "dial queue"),
    ("DueQueue", "due queue"),
    ("EventsDlq", "events queue, and its dead-letter queue"),
    ("EventsQueue", "events queue"),
    ("ForwardDlq", "queue of domain events that could not be [posted](events.md#post-to-any-url)"),
    ("RelayFailuresQueue", "queue of relay failures"),
    ("RepairQueue", "repair queue"),
];

#[test]
fn state_diagrams_of_the_architecture_have_the_edges_of_the_machines_and_no_other() {
    check_diagram("Lifecycle", &LIFECYCLE);
    check_diagram("Outcome", &OUTCOME);
}

#[test]
fn privacy_page_names_every_queue() {
    let is_template = |path: &String| path == TEMPLATE || path.starts_with("infra/");
    let mut queues = BTreeSet::new();
    for path in files_with_extension("yaml").into_iter().filter(is_template) {
        let resources = yaml(&path)["Resources"].as_object().cloned().unwrap_or_default();
        let of_template = resources.into_iter().filter(|(_, resource)| resource["Type"] == "AWS::SQS::Queue");
        queues.extend(of_template.map(|(name, _)| name));
    }
    let named = BTreeMap::from(QUEUES);
    assert_eq!(queues.iter().map(String::as_str).collect::<BTreeSet<_>>(), named.keys().copied().collect());
    let page = read("docs/privacy.md");
    for (queue, name) in named {
        assert!(page.contains(name), "docs/privacy.md does not name {queue}: {name}");
    }
}

/// Without a topic, alarms notify nobody, and a template has none by default. A later command of a page may update the stack.
#[test]
fn command_that_deploys_alarms_names_a_topic() {
    let pages = files_with_extension("md").into_iter().filter(|path| path.starts_with("docs/"));
    let pages: Vec<(String, String)> = pages.map(|path| (read(&path), path)).collect();
    let templates = files_with_extension("yaml").into_iter().filter(|path| path.starts_with("infra/"));
    let mut commands = 0;
    for template in templates.filter(|path| yaml(path)["Parameters"].get("AlarmTopicArn").is_some()) {
        for (text, path) in &pages {
            let Some((_, command)) = text.split_once(&format!("--template-file {template} ")) else { continue };
            let command = command.split("\n\n").next().unwrap_or_default();
            assert!(command.contains("AlarmTopicArn="), "{path}: {template}");
            commands += 1;
        }
    }
    assert_eq!(commands, 3, "edge, export and forward");
}

/// Compares a machine with the state diagram below the heading that contains this word. The ids in the diagram are the
/// names of the variants. A label lists events. The word `presumed` before an event marks an edge that is legal only
/// after the inactivity timeout.
fn check_diagram<S: State>(word: &str, machine: &Machine<S, EventKind>) {
    let page = Page::read("ARCHITECTURE.md");
    let is_wanted =
        |block: &&CodeBlock| block.heading.contains(word) && block.language == "mermaid" && is_state_diagram(block);
    let blocks: Vec<&CodeBlock> = page.code_blocks.iter().filter(is_wanted).collect();
    assert_eq!(blocks.len(), 1, "number of state diagrams below a heading with {word}");

    let mut drawn = Vec::new();
    let mut initial = Vec::new();
    for line in blocks[0].text.lines().skip(1).map(str::trim) {
        let Some((from, rest)) = line.split_once(" --> ") else {
            assert!(
                line.is_empty() || line.starts_with("direction ") || line.starts_with("%%"),
                "unknown line in the diagram: {line}"
            );
            continue;
        };
        if from == "[*]" {
            initial.push(rest.to_owned());
            continue;
        }
        let (to, label) = rest.split_once(": ").unwrap_or_else(|| panic!("no event on {line}"));
        let events = label.split([',', '·']).map(str::trim);
        drawn.extend(events.map(|event| (from.to_owned(), to.to_owned(), event.to_owned())));
    }
    assert_eq!(initial, [format!("{:?}", machine.initial)], "initial state of {word}");
    let unique: BTreeSet<_> = drawn.iter().cloned().collect();
    assert_eq!(unique.len(), drawn.len(), "an edge of {word} is drawn twice");

    let named = |from: S, to: S, event: String| (format!("{from:?}"), format!("{to:?}"), event);
    let mut edges = BTreeSet::new();
    for (from, row) in machine.edges {
        edges.extend(row.iter().map(|(kind, to)| named(*from, *to, kind.to_string())));
    }
    for (from, row) in machine.presumed_edges {
        edges.extend(row.iter().map(|(kind, to)| named(*from, *to, format!("presumed {kind}"))));
    }
    assert_eq!(unique, edges, "edges of {word}");

    let precedence = names_of(S::ALL).join(" < ");
    let is_stated = page.paragraphs.iter().any(|paragraph| paragraph.contains(&precedence));
    assert!(is_stated, "the page must state the precedence of {word}: {precedence}");
}

fn is_state_diagram(block: &CodeBlock) -> bool {
    block.text.starts_with("stateDiagram-v2\n")
}

fn names_of(states: &[impl Debug]) -> Vec<String> {
    states.iter().map(|state| format!("{state:?}")).collect()
}
