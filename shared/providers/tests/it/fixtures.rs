//! Every event type that a reader knows has a sample.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{Reading, read, samples};

use crate::samples::verified;

/// Names of event types in the source of a reader.
struct Names {
    provider: Provider,
    file: &'static str,
    /// Text before the names. They end with the block that it opens, or with the constant.
    start: &'static str,
    /// Text before each name in an event type.
    prefix: &'static str,
    /// True if the alternatives of one arm are spellings of one event type. Then one of them needs a sample.
    are_spellings: bool,
    /// Names that no webhook has.
    ours: &'static [&'static str],
}

const fn names(provider: Provider, file: &'static str, start: &'static str) -> Names {
    Names { provider, file, start, prefix: "", are_spellings: false, ours: &[] }
}

const KNOWN: [Names; 20] = [
    names(Provider::Retell, "retell/payload.rs", "impl Event {"),
    names(Provider::Retell, "retell/normalize.rs", "pub(crate) const QUESTION: &str ="),
    Names { are_spellings: true, ..names(Provider::Twilio, "twiml/payload.rs", "impl CallStatus {") },
    names(Provider::Twilio, "twiml/normalize.rs", "const AMD: &str ="),
    Names { prefix: "status-update:", ..names(Provider::Vapi, "vapi/payload.rs", "impl CallStatus {") },
    names(Provider::Vapi, "vapi/normalize.rs", "impl Kind {"),
    names(Provider::Vapi, "vapi/normalize.rs", "pub(crate) const QUESTION: &str ="),
    names(Provider::Telnyx, "telnyx/payload.rs", "impl EventType {"),
    names(Provider::ElevenLabs, "elevenlabs/payload.rs", "impl Event {"),
    Names { ours: &["ended", "other"], ..names(Provider::Plivo, "plivo/payload.rs", "impl CallStatus {") },
    names(Provider::Plivo, "plivo/normalize.rs", "const MACHINE_DETECTION: &str ="),
    names(Provider::Vonage, "vonage/payload.rs", "impl Status {"),
    names(Provider::LiveKit, "livekit/payload.rs", "impl EventName {"),
    names(Provider::Daily, "daily/payload.rs", "impl EventType {"),
    names(Provider::Daily, "daily/payload.rs", "const FAMILIES_WITHOUT_CALLS: [&str; 7] ="),
    names(Provider::Daily, "daily/normalize.rs", "const TEST: &str ="),
    names(Provider::Bland, "bland/normalize.rs", "const POST_CALL: &str ="),
    Names { are_spellings: true, ..names(Provider::SignalWire, "twiml/payload.rs", "impl CallStatus {") },
    names(Provider::SignalWire, "twiml/normalize.rs", "const AMD: &str ="),
    Names { are_spellings: true, ..names(Provider::Generic, "generic/payload.rs", "pub(super) fn meaning(") },
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Returns the names in the source, in groups. One name of each group needs a sample.
fn groups(names: &Names) -> Vec<Vec<String>> {
    let source = std::fs::read_to_string(folder("src").join(names.file)).unwrap();
    let lines: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let source = lines.join("\n");
    let start = source.find(names.start).unwrap_or_else(|| panic!("{} has no {}", names.file, names.start));
    // rustfmt closes a block with the indentation of its first line.
    let end = if names.start.ends_with('=') { ";" } else { "\n}" };
    let rest = &source[start + names.start.len()..];
    let block = &rest[..rest.find(end).unwrap()];
    let arms = block.split("=>").map(|arm| {
        let literals = arm.split('"').skip(1).step_by(2).filter(|literal| !names.ours.contains(literal));
        literals.map(|literal| format!("{}{literal}", names.prefix)).collect::<Vec<_>>()
    });
    let groups: Vec<Vec<String>> =
        if names.are_spellings { arms.collect() } else { arms.flatten().map(|name| vec![name]).collect() };
    assert!(groups.iter().any(|group| !group.is_empty()), "{} names no event type after {}", names.file, names.start);
    groups
}

/// Event types of a provider's samples.
fn sampled(provider: Provider) -> BTreeSet<String> {
    let prefix = format!("{provider}/");
    let of_provider = samples().iter().filter(|(name, _)| name.starts_with(&prefix));
    let readings = of_provider.map(|(name, _)| read(&verified(name), Timestamp::from_millis(1_760_962_600_000)));
    let event_type = |reading| match reading {
        Reading::Event(event) => event.event_type,
        Reading::Recorded { event_type, .. } => event_type,
        Reading::Quarantined { error, .. } => panic!("{provider}: {error}"),
    };
    readings.map(event_type).collect()
}

/// True if the event type has this name, or begins with it: `status-update:ended`, `meeting.started`.
fn is_named(event_type: &str, name: &str) -> bool {
    event_type.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '.']))
}

#[test]
fn every_event_type_that_a_reader_knows_has_a_sample() {
    let mut missing = Vec::new();
    for provider in Provider::ALL {
        let sampled = sampled(provider);
        let groups: Vec<_> = KNOWN.iter().filter(|names| names.provider == provider).flat_map(groups).collect();
        assert!(!groups.is_empty(), "no event type of {provider} is known");
        let has_sample = |name: &String| sampled.iter().any(|event_type| is_named(event_type, name));
        let without = groups.into_iter().filter(|group| !group.is_empty() && !group.iter().any(has_sample));
        missing.extend(without.map(|group| format!("{provider}: {}", group.join(" or "))));
    }
    assert!(missing.is_empty(), "event types without a sample: {missing:#?}");
}

#[test]
fn every_fixture_is_a_sample() {
    for provider in Provider::ALL {
        for file in std::fs::read_dir(folder("fixtures").join(provider.as_str())).unwrap() {
            let path = file.unwrap().path();
            if !path.extension().is_some_and(|extension| extension == "json" || extension == "form") {
                continue;
            }
            let name = format!("{provider}/{}", path.file_stem().unwrap().to_str().unwrap());
            assert!(samples().iter().any(|(sample, _)| *sample == name), "{name} is not in the list of samples");
        }
    }
}
