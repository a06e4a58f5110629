//! Every event type has a sample: those that a reader knows, and those that the vendor documents and that change no call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::{Reading, read, read_with_notes, samples};

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

/// Event types that change no call, and that no reader names. Those of a telephone call in the vendor's package or documentation:
/// Retell's webhook overview, `ServerMessageMessage` of Vapi's package for TypeScript (0.11), `resources/webhooks.ts` of Telnyx's package
/// for JavaScript (August 2026) and its API reference, ElevenLabs' post-call webhooks, `webhook_events` of Bland.
const IGNORED: [(Provider, &[&str]); 5] = [
    (
        Provider::Retell,
        &[
            "transcript_updated",
            "transfer_started",
            "transfer_bridged",
            "transfer_cancelled",
            "transfer_ended",
            "chat_started",
            "chat_ended",
            "chat_analyzed",
        ],
    ),
    (
        Provider::Vapi,
        &[
            "assistant.speechStarted",
            "assistant.started",
            "call.delete.failed",
            "call.deleted",
            "call.endpointing.request",
            "chat.created",
            "chat.deleted",
            "conversation-update",
            "function-call",
            "handoff-destination-request",
            "hang",
            "knowledge-base-request",
            "language-change-detected",
            "model-output",
            "phone-call-control",
            "session.created",
            "session.deleted",
            "session.updated",
            "speech-update",
            "tool-calls",
            "transcript",
            "transfer-destination-request",
            "transfer-update",
            "user-interrupted",
            "voice-input",
            "voice-request",
        ],
    ),
    // The names of Telnyx's packages for JavaScript, Python, PHP and Go, which agree, and two of its API reference alone:
    // `call.conversation.created` and `call.conversation.start_failed`.
    (
        Provider::Telnyx,
        &[
            "call.ai_gather.ended",
            "call.ai_gather.message_history_updated",
            "call.ai_gather.partial_results",
            "call.bridged",
            "call.conversation.created",
            "call.conversation.ended",
            "call.conversation.start_failed",
            "call.conversation_insights.generated",
            "call.cost",
            "call.deepfake_detection.error",
            "call.deepfake_detection.result",
            "call.dequeued",
            "call.dtmf.received",
            "call.enqueued",
            "call.fork.started",
            "call.fork.stopped",
            "call.gather.ended",
            "call.hold",
            "call.machine.premium.detection.started",
            "call.payment.completed",
            "call.payment.progress",
            "call.playback.ended",
            "call.playback.started",
            "call.recording.error",
            "call.recording.saved",
            "call.recording.transcription.saved",
            "call.refer.completed",
            "call.refer.failed",
            "call.refer.started",
            "call.speak.ended",
            "call.speak.started",
            "call.transcription",
            "call.unhold",
            "conference.created",
            "conference.ended",
            "conference.floor.changed",
            "conference.participant.joined",
            "conference.participant.left",
            "conference.participant.playback.ended",
            "conference.participant.playback.started",
            "conference.participant.speak.ended",
            "conference.participant.speak.started",
            "conference.playback.ended",
            "conference.playback.started",
            "conference.recording.saved",
            "conference.speak.ended",
            "conference.speak.started",
            "siprec.failed",
            "siprec.started",
            "siprec.stopped",
            "streaming.failed",
            "streaming.started",
            "streaming.stopped",
        ],
    ),
    (Provider::ElevenLabs, &["post_call_audio"]),
    (Provider::Bland, &["call", "dynamic_data", "latency", "queue", "tool", "webhook"]),
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
fn every_documented_event_type_has_a_sample() {
    for (provider, names) in IGNORED {
        let sampled = sampled(provider);
        let missing: Vec<_> = names.iter().filter(|name| !sampled.contains(**name)).collect();
        assert!(missing.is_empty(), "event types of {provider} without a sample: {missing:?}");
    }
}

/// A vendor's documented event is no surprise, so it is not counted as an unknown value.
#[test]
fn no_documented_event_type_is_an_unknown_value() {
    for (provider, names) in IGNORED {
        let prefix = format!("{provider}/");
        for (sample, _) in samples().iter().filter(|(name, _)| name.starts_with(&prefix)) {
            let (reading, notes) = read_with_notes(&verified(sample), Timestamp::from_millis(1_760_962_600_000));
            let Reading::Recorded { event_type, .. } = reading else { continue };
            if names.contains(&event_type.as_str()) {
                assert_eq!(notes.unknown_value, None, "{sample}");
            }
        }
    }
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
