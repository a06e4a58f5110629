use std::collections::{BTreeMap, BTreeSet};

use clap::Command;
use switchhook_operate::audit::{Direct, Operation};
use switchhook_operate::plan::Verb as Planned;

use super::*;

/// Effect of a command on a stack.
#[derive(Debug)]
enum Effect {
    /// It reads, or it works on this machine alone.
    None,
    /// It changes the stack, and leaves no audit record for this reason.
    NotAudited(&'static str),
    /// It changes the stack, or shows an unmasked payload. Its audit records name these operations.
    Audited(&'static [Operation]),
    /// It goes on with a run, whose operation is audited.
    Resumes,
}

const fn planned(verb: Planned) -> Operation {
    Operation::Planned(verb)
}

const fn direct(direct: Direct) -> Operation {
    Operation::Direct(direct)
}

/// Every command of the tool, and its effect. **A new command that changes a stack must be audited.**
const EFFECTS: &[(&str, Effect)] = &[
    ("dev", Effect::None),
    ("audit list", Effect::None),
    ("bench", Effect::NotAudited("it removes everything that it has made")),
    ("call create", Effect::Audited(&[direct(Direct::CreateCall)])),
    ("call import", Effect::Audited(&[direct(Direct::ImportCalls)])),
    ("call trigger", Effect::Audited(&[direct(Direct::TriggerCall)])),
    ("call cancel", Effect::Audited(&[direct(Direct::CancelCall)])),
    ("call list", Effect::None),
    ("check", Effect::NotAudited("it removes everything that it has made")),
    ("completions", Effect::None),
    ("console", Effect::None),
    ("demo", Effect::None),
    ("dials", Effect::None),
    ("dlq list", Effect::None),
    ("dlq redrive", Effect::Audited(&[planned(Planned::Redrive)])),
    ("dlq discard", Effect::Audited(&[planned(Planned::DiscardDeadLetters)])),
    ("event list", Effect::None),
    ("event show", Effect::Audited(&[direct(Direct::ShowBody)])),
    ("fake", Effect::None),
    ("forget", Effect::Audited(&[planned(Planned::Forget)])),
    ("providers list", Effect::None),
    ("providers check", Effect::None),
    ("providers put", Effect::Audited(&[direct(Direct::PutProviders)])),
    ("quarantine list", Effect::None),
    ("quarantine reprocess", Effect::Audited(&[planned(Planned::Reprocess)])),
    ("quarantine discard", Effect::Audited(&[planned(Planned::DiscardQuarantined)])),
    ("reconcile", Effect::Audited(&[direct(Direct::Reconcile), direct(Direct::DriftCheck)])),
    ("recover copy", Effect::Audited(&[planned(Planned::Copy)])),
    ("recover inbox", Effect::Audited(&[planned(Planned::Refill)])),
    ("recover stop", Effect::Audited(&[planned(Planned::Stop)])),
    ("replay", Effect::Audited(&[planned(Planned::Replay)])),
    ("republish", Effect::Audited(&[planned(Planned::Republish)])),
    ("run list", Effect::None),
    ("run resume", Effect::Resumes),
    ("send", Effect::NotAudited("it is a provider, with a provider's key; the inbox keeps what it sends")),
    ("show", Effect::None),
    ("simulate", Effect::None),
    ("status", Effect::None),
    ("stuck", Effect::None),
    ("tail", Effect::None),
    ("timeline", Effect::None),
    ("verify", Effect::Audited(&[planned(Planned::Verify)])),
];

/// Returns the commands that have no commands below them, by their words.
fn leaves(command: &Command, words: &str, found: &mut BTreeMap<String, Command>) {
    for below in command.get_subcommands() {
        let words = format!("{words} {}", below.get_name()).trim_start().to_owned();
        if below.has_subcommands() {
            leaves(below, &words, found);
        } else {
            found.insert(words, below.clone());
        }
    }
}

#[test]
fn every_command_that_changes_a_stack_is_audited() {
    let mut commands = BTreeMap::new();
    leaves(&Switchhook::command(), "", &mut commands);
    let listed: BTreeSet<&str> = EFFECTS.iter().map(|(words, _)| *words).collect();
    assert_eq!(commands.keys().map(String::as_str).collect::<BTreeSet<_>>(), listed, "each command has an effect");
    for (words, effect) in EFFECTS {
        let takes_reason = commands[*words].get_arguments().any(|argument| argument.get_id() == "reason");
        match effect {
            Effect::None | Effect::Resumes => assert!(!takes_reason, "{words} takes a reason"),
            Effect::NotAudited(why) => assert!(!takes_reason && !why.is_empty(), "{words}"),
            Effect::Audited(operations) => {
                assert!(takes_reason, "{words} takes no reason");
                let names: Vec<&str> = operations.iter().map(|operation| operation.command()).collect();
                assert!(!names.is_empty() && names.iter().all(|name| name.starts_with(words)), "{words}: {names:?}");
            }
        }
    }
}

#[test]
fn every_audited_operation_is_of_one_command() {
    let audited = EFFECTS.iter().flat_map(|(_, effect)| match effect {
        Effect::Audited(operations) => *operations,
        Effect::None | Effect::NotAudited(_) | Effect::Resumes => &[],
    });
    let mut named: Vec<&str> = audited.map(|operation| operation.as_str()).collect();
    let all = Planned::ALL.map(planned).into_iter().chain(Direct::ALL.map(direct));
    let mut all: Vec<&str> = all.map(Operation::as_str).collect();
    named.sort_unstable();
    all.sort_unstable();
    assert_eq!(named, all);
}
