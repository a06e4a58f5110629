//! The pages about providers: every example of a providers file must be accepted, and every table of events must match the code.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use serde_json::{Value, json};
use switchhook_domain::{
    DO_NOT_CALL_PREFIX, ENTITY_PREFIX, EventKind, NeverDialled, PROVIDER_HEALTH_PREFIX, Provider, Timestamp,
};
use switchhook_providers::{
    CallSearch, Period, ProvidersFile, Reading, VerifiedWebhook, discovery_api_request, read, repeats_safely_for,
};

use crate::api::{NOW, config, job, with_private_key};
use crate::reading;

/// One page: its provider, its text, and the number of its event tables.
const PAGES: [(Provider, &str, usize); 12] = [
    (Provider::Retell, include_str!("../../../../docs/providers/retell.md"), 4),
    (Provider::Twilio, include_str!("../../../../docs/providers/twilio.md"), 2),
    (Provider::Vapi, include_str!("../../../../docs/providers/vapi.md"), 3),
    (Provider::Telnyx, include_str!("../../../../docs/providers/telnyx.md"), 3),
    (Provider::ElevenLabs, include_str!("../../../../docs/providers/elevenlabs.md"), 5),
    (Provider::Plivo, include_str!("../../../../docs/providers/plivo.md"), 3),
    (Provider::Vonage, include_str!("../../../../docs/providers/vonage.md"), 4),
    (Provider::LiveKit, include_str!("../../../../docs/providers/livekit.md"), 2),
    (Provider::Daily, include_str!("../../../../docs/providers/daily.md"), 1),
    (Provider::Bland, include_str!("../../../../docs/providers/bland.md"), 3),
    (Provider::SignalWire, include_str!("../../../../docs/providers/signalwire.md"), 2),
    (Provider::Generic, include_str!("../../../../docs/providers/generic.md"), 1),
];

/// Parsed parts of a page that the tests compare with the code.
#[derive(Default)]
struct Page {
    /// Blocks of JSON, with or without comments.
    json_examples: Vec<String>,
    /// Blocks without a language, such as commands.
    plain_blocks: Vec<String>,
    tables: Vec<Table>,
}

#[derive(Default)]
struct Table {
    header: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Default)]
struct Cell {
    /// Text without markup.
    text: String,
    /// Code spans.
    codes: Vec<String>,
    /// Index of the first code span after the word "implies".
    implied_from: Option<usize>,
}

/// Meaning of a webhook, without the order of its call events.
#[derive(Debug, Default, PartialEq)]
struct Meaning {
    reported: BTreeSet<String>,
    implied: BTreeSet<String>,
    permanent: bool,
    never_dialled: Option<NeverDialled>,
}

impl Page {
    #[expect(clippy::wildcard_enum_match_arm, reason = "Markdown has many other elements")]
    fn parse(text: &str) -> Self {
        let mut page = Self::default();
        let mut row = Vec::new();
        let mut cell = Cell::default();
        let (mut in_json, mut in_plain) = (false, false);
        for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language)))
                    if ["json", "jsonc"].contains(&&*language) =>
                {
                    in_json = true;
                    page.json_examples.push(String::new());
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                    in_plain = true;
                    page.plain_blocks.push(String::new());
                }
                Event::End(TagEnd::CodeBlock) => (in_json, in_plain) = (false, false),
                Event::Text(text) if in_json => page.json_examples.last_mut().unwrap().push_str(&text),
                Event::Text(text) if in_plain => page.plain_blocks.last_mut().unwrap().push_str(&text),
                Event::Start(Tag::Table(_)) => page.tables.push(Table::default()),
                Event::Start(Tag::TableCell) => cell = Cell::default(),
                Event::Text(text) => {
                    cell.text.push_str(&text);
                    if text.contains("implies") {
                        cell.implied_from = Some(cell.codes.len());
                    }
                }
                Event::Code(code) => {
                    cell.text.push_str(&code);
                    cell.codes.push(code.to_string());
                }
                Event::End(TagEnd::TableCell) => row.push(std::mem::take(&mut cell)),
                Event::End(TagEnd::TableHead) => page.tables.last_mut().unwrap().header = std::mem::take(&mut row),
                Event::End(TagEnd::TableRow) => page.tables.last_mut().unwrap().rows.push(std::mem::take(&mut row)),
                _ => {}
            }
        }
        page
    }
}

impl Table {
    fn name(&self) -> &str {
        &self.header[0].text
    }
}

impl Cell {
    /// Meaning that the cell states. `None` if it refers to another table.
    fn meaning(&self) -> Option<Meaning> {
        if self.text.starts_with("see ") {
            return None;
        }
        assert!(!self.codes.is_empty() || self.text.starts_with("none: stored"), "{}", self.text);
        let (reported, implied) = self.codes.split_at(self.implied_from.unwrap_or(self.codes.len()));
        Some(Meaning {
            reported: reported.iter().cloned().collect(),
            implied: implied.iter().cloned().collect(),
            permanent: self.text.contains("permanent"),
            never_dialled: NeverDialled::ALL
                .into_iter()
                .find(|reason| self.text.contains(&format!("never dialled ({})", reason.as_str()))),
        })
    }
}

impl Meaning {
    fn of(provider: Provider, body: &str) -> Self {
        let webhook = VerifiedWebhook::from_inbox(provider, String::new(), body.as_bytes().to_vec(), 0);
        match read(&webhook, Timestamp::from_millis(1_760_962_600_000)) {
            Reading::Event(event) => {
                let kinds = |implied: bool| {
                    let events = event.call_events.iter().filter(|event| event.implied == implied);
                    events.map(|event| event.kind.to_string()).collect()
                };
                let failed = || event.call_events.iter().filter(|event| event.kind == EventKind::Failed);
                let permanent = failed().any(|event| event.permanent);
                let never_dialled = failed().find_map(|event| event.never_dialled);
                Self { reported: kinds(false), implied: kinds(true), permanent, never_dialled }
            }
            Reading::Recorded { .. } => Self::default(),
            Reading::Quarantined { error, .. } => panic!("{provider}: {error}: {body}"),
        }
    }
}

/// Webhook for one name of the first column. `column` is the column with its meaning, from 1.
fn webhook(provider: Provider, table: &str, name: &str, column: usize) -> String {
    let first = column == 1;
    let retell = |event: &str, call: Value| json!({"event": event, "call": call}).to_string();
    let report = |reason: &str, started: bool, data: Option<Value>| {
        let call = json!({"id": "c", "startedAt": started.then_some("2025-10-20T12:14:00Z")});
        let analysis = json!({"structuredData": data});
        let message = json!({"type": "end-of-call-report", "endedReason": reason, "call": call, "analysis": analysis});
        json!({"message": message}).to_string()
    };
    let telnyx = |event_type: &str, field: &str, value: &str| {
        let payload = json!({"call_control_id": "c", field: value});
        json!({"data": {"id": "e", "event_type": event_type, "payload": payload}}).to_string()
    };
    let elevenlabs = |call_result: Option<&str>, status: &str, results: Value| {
        let metadata =
            json!({"call_duration_secs": if first { 9 } else { 0 }, "phone_call": {"call_result": call_result}});
        let analysis = json!({"data_collection_results": results});
        let data = json!({"conversation_id": "c", "status": status, "metadata": metadata, "analysis": analysis});
        json!({"type": "post_call_transcription", "event_timestamp": 1_760_962_525, "data": data}).to_string()
    };
    let livekit = |event: &str, status: &str, reason: &str| {
        let attributes = json!({"sip.callID": "c", "sip.callStatus": status});
        let participant = json!({"kind": "SIP", "attributes": attributes, "disconnectReason": reason});
        json!({"event": event, "participant": participant}).to_string()
    };
    let bland = |more: Value| {
        let mut call = json!({"call_id": "c", "completed": true, "status": "completed"});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call.to_string()
    };
    let object = || serde_json::from_str::<Value>(name).unwrap();
    match (provider, table) {
        (Provider::Retell, "event") => retell(name, json!({"call_id": "c"})),
        (Provider::Retell, "disconnection_reason") if first => {
            let call = json!({"call_id": "c", "call_status": "ended", "start_timestamp": 1, "end_timestamp": 2,
                "disconnection_reason": name});
            retell("call_ended", call)
        }
        (Provider::Retell, "disconnection_reason") => {
            let call = json!({"call_id": "c", "call_status": "not_connected", "disconnection_reason": name});
            retell("call_ended", call)
        }
        (Provider::Retell, "call_status") => {
            let call = json!({"call_id": "c", "call_status": name, "start_timestamp": first.then_some(1)});
            retell("call_ended", call)
        }
        (Provider::Retell, "call_analysis") => {
            let call = json!({"call_id": "c", "disconnection_reason": "user_hangup", "call_analysis": object()});
            retell("call_analyzed", call)
        }
        (Provider::Twilio | Provider::SignalWire, "CallStatus") => format!("CallSid=CA1&CallStatus={name}"),
        (Provider::Twilio | Provider::SignalWire, "AnsweredBy") => format!("CallSid=CA1&AnsweredBy={name}"),
        (Provider::Vapi, "status of status-update") => {
            json!({"message": {"type": "status-update", "status": name, "call": {"id": "c"}}}).to_string()
        }
        (Provider::Vapi, "endedReason") => report(name, first, None),
        (Provider::Vapi, "structuredData") => report("customer-ended-call", true, Some(object())),
        (Provider::Telnyx, "event") => telnyx(name, "state", ""),
        (Provider::Telnyx, "result of a machine event") => {
            telnyx("call.machine.premium.detection.ended", "result", name)
        }
        (Provider::Telnyx, "hangup_cause") => telnyx("call.hangup", "hangup_cause", name),
        (Provider::ElevenLabs, "type") => json!({"type": name, "data": {"conversation_id": "c"}}).to_string(),
        (Provider::ElevenLabs, "call_result") => elevenlabs(Some(name), "done", json!({})),
        (Provider::ElevenLabs, "status without call_result") => elevenlabs(None, name, json!({})),
        (Provider::ElevenLabs, "failure_reason") => {
            let data = json!({"conversation_id": "c", "failure_reason": name});
            json!({"type": "call_initiation_failure", "data": data}).to_string()
        }
        (Provider::ElevenLabs, "data_collection_results") => elevenlabs(Some("answered"), "done", object()),
        (Provider::Plivo, "CallStatus") if first => format!("CallUUID=c&CallStatus={name}"),
        (Provider::Plivo, "CallStatus") => format!("CallUUID=c&CallStatus={name}&BillDuration=9"),
        (Provider::Plivo, "HangupCauseCode of failed") => {
            let seconds = if first { 0 } else { 9 };
            format!("CallUUID=c&CallStatus=failed&HangupCauseCode={name}&BillDuration={seconds}")
        }
        (Provider::Plivo, "Machine") => {
            format!("CallUUID=c&Event=MachineDetection&CallStatus=in-progress&Machine={name}")
        }
        (Provider::Vonage, "status") if first => json!({"uuid": "c", "status": name}).to_string(),
        (Provider::Vonage, "status") => json!({"uuid": "c", "status": name, "duration": "9"}).to_string(),
        (Provider::Vonage, "detail of rejected") => {
            json!({"uuid": "c", "status": "rejected", "detail": name}).to_string()
        }
        (Provider::Vonage, "detail of failed") => json!({"uuid": "c", "status": "failed", "detail": name}).to_string(),
        (Provider::Vonage, "verdict") => json!({"call_uuid": "c", "status": name}).to_string(),
        (Provider::LiveKit, "sip.callStatus") => livekit("participant_joined", name, ""),
        (Provider::LiveKit, "disconnectReason") => {
            livekit("participant_left", if first { "ringing" } else { "active" }, name)
        }
        (Provider::Daily, "type") => {
            let payload = json!({"session_id": "c", "timestamp": 1_760_962_443});
            json!({"type": name, "id": "e", "payload": payload}).to_string()
        }
        (Provider::Bland, "answered_by") if first => bland(json!({"answered_by": name, "call_length": 1.3})),
        (Provider::Bland, "answered_by") => bland(json!({"answered_by": name, "call_length": 0})),
        (Provider::Bland, "status or queue_status without answered_by") => {
            let is_of_queue = name.contains('_') || ["new", "allocated", "complete"].contains(&name);
            let field = if is_of_queue { "queue_status" } else { "status" };
            let call = json!({"call_id": "c", field: name, "call_length": if first { 1.3 } else { 0.0 }});
            call.to_string()
        }
        (Provider::Bland, "analysis or disposition_tag") => {
            let mut call = object();
            call["answered_by"] = "human".into();
            bland(call)
        }
        (Provider::Generic, "event") => json!({"event_type": name, "call_id": "c"}).to_string(),
        (provider, table) => panic!("{provider}: no test for the table of {table:?}"),
    }
}

/// True if the name of a table cell is a pattern, such as `pipeline-error-…`, that matches.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let inner = pattern.trim_matches('…');
    match (pattern.starts_with('…'), pattern.ends_with('…')) {
        (true, true) => name.contains(inner),
        (true, false) => name.ends_with(inner),
        (false, true) => name.starts_with(inner),
        (false, false) => false,
    }
}

#[test]
fn event_tables_match_the_code() {
    for (provider, text, event_tables) in PAGES {
        let page = Page::parse(text);
        let tables: Vec<&Table> =
            page.tables.iter().filter(|table| !["field", "answer"].contains(&table.name())).collect();
        assert_eq!(tables.len(), event_tables, "{provider}");
        for table in tables {
            for row in &table.rows {
                for (column, cell) in row.iter().enumerate().skip(1) {
                    let Some(expected) = cell.meaning() else { continue };
                    for name in row[0].codes.iter().filter(|name| !name.contains('…') || name.starts_with('{')) {
                        let meaning = Meaning::of(provider, &webhook(provider, table.name(), name, column));
                        assert_eq!(meaning, expected, "{provider}: {}: {name}, column {column}", table.name());
                    }
                }
            }
        }
    }
}

#[test]
fn table_of_the_providers_matches_the_code() {
    let page = Page::parse(include_str!("../../../../docs/providers/README.md"));
    let [table] = page.tables.as_slice() else { panic!("one table") };
    let column = |name: &str| table.header.iter().position(|cell| cell.text == name).unwrap();
    let names = [
        "Retell",
        "Twilio",
        "Vapi",
        "Telnyx",
        "ElevenLabs",
        "Plivo",
        "Vonage",
        "LiveKit",
        "Daily",
        "Bland",
        "SignalWire",
        "any other sender",
        "OpenAI, described by configuration",
    ];
    assert_eq!(table.rows.iter().map(|row| row[0].text.as_str()).collect::<Vec<_>>(), names);
    for (provider, row) in Provider::ALL.into_iter().zip(&table.rows) {
        // Daily and generic have no account, so any other one stands for it.
        let has_account = !matches!(provider, Provider::Daily | Provider::Generic);
        let config = config(if has_account { provider } else { Provider::Retell });
        let (job, period) = (job(), Period { from: NOW, until: NOW });
        let can_search = |id| CallSearch::start(provider, &config, job.lookup(id)).is_ok();
        for (name, supported) in [
            ("idempotent dial", repeats_safely_for(provider).is_some()),
            ("finds a dial in doubt", can_search(None)),
            ("fetch", can_search(Some("c"))),
            ("discover", discovery_api_request(provider, &config, period, None).is_ok()),
            ("reports outcome", provider.reports_outcome()),
        ] {
            let cell = &row[column(name)].text;
            assert_eq!(cell.starts_with("yes"), supported, "{provider}: {name}: {cell}");
            // A feature that a parameter must switch on is not there by default.
            let is_missing = cell == "no" || cell.starts_with("only with");
            assert_eq!(is_missing, !supported, "{provider}: {name}: {cell}");
        }
    }
}

#[test]
fn every_reason_of_vapi_is_in_its_table() {
    let (provider, text, _) = PAGES[2];
    let page = Page::parse(text);
    let table = page.tables.iter().find(|table| table.name() == "endedReason").unwrap();
    let others = table.rows.last().unwrap();
    assert!(others[0].text.contains("every other reason"));
    for reason in include_str!("../../fixtures/vapi/ended_reasons.txt").lines().chain(["a-reason-of-next-year"]) {
        let named = |row: &&Vec<Cell>| row[0].codes.iter().any(|name| name == reason);
        let matching = |row: &&Vec<Cell>| row[0].codes.iter().any(|name| matches_pattern(name, reason));
        let row = table.rows.iter().find(named).or_else(|| table.rows.iter().find(matching)).unwrap_or(others);
        for column in [1, 2] {
            let meaning = Meaning::of(provider, &webhook(provider, table.name(), reason, column));
            assert_eq!(Some(meaning), row[column].meaning(), "{reason}, column {column}");
        }
    }
}

#[test]
fn every_known_reason_of_retell_is_in_its_table() {
    let page = Page::parse(PAGES[0].1);
    let table = page.tables.iter().find(|table| table.name() == "disconnection_reason").unwrap();
    let documented: BTreeSet<&str> = table.rows.iter().flat_map(|row| &row[0].codes).map(String::as_str).collect();
    let known: BTreeSet<&str> =
        reading::REASONS.into_iter().filter(|reason| !["a_reason_of_next_year", ""].contains(reason)).collect();
    assert_eq!(documented, known);
}

#[test]
fn json_examples_are_accepted_and_their_fields_explained() {
    for (provider, text, _) in PAGES {
        let page = Page::parse(text);
        let explained: BTreeSet<&str> = page
            .tables
            .iter()
            .filter(|table| table.name() == "field")
            .flat_map(|table| &table.rows)
            .flat_map(|row| &row[0].codes)
            .map(String::as_str)
            .collect();
        let mut secrets = 0;
        for example in &page.json_examples {
            let document: Value = serde_json::from_str(example).unwrap();
            let fields = match document.get(provider.as_str()) {
                Some(fields) => {
                    let providers = ProvidersFile::from_json(&with_private_key(example)).unwrap();
                    assert!(providers.webhook_keys().config(provider).is_some());
                    secrets += 1;
                    fields
                }
                None => {
                    let meaning = Meaning::of(provider, example);
                    assert!(!meaning.reported.is_empty(), "{provider}: {example}");
                    &document
                }
            };
            for (name, value) in fields.as_object().unwrap() {
                assert!(explained.contains(name.as_str()) || value.is_object(), "{provider}: {name}");
                for inner in value.as_object().into_iter().flat_map(serde_json::Map::keys) {
                    let path = format!("{name}.{inner}");
                    assert!(explained.contains(path.as_str()), "{provider}: {path}");
                }
            }
        }
        assert!(secrets > 0, "{provider}");
    }
}

#[test]
fn examples_with_keys_on_other_pages_are_accepted() {
    let pages = [
        (include_str!("../../../../docs/deploy.md"), 1),
        (include_str!("../../../../docs/edge.md"), 1),
        (include_str!("../../../../docs/providers/configured.md"), 2),
    ];
    for (text, documents) in pages {
        let page = Page::parse(text);
        let heredocs = page.plain_blocks.iter().filter_map(|block| {
            let (_, document) = block.split_once("<<'END'\n")?;
            Some(document.split_once("\nEND\n").unwrap().0)
        });
        let examples = page.json_examples.iter().map(String::as_str).chain(heredocs);
        let mut accepted = 0;
        for example in examples.filter(|example| example.contains("\"keys\"")) {
            // Some blocks show the entry of one provider, and some a part of an entry.
            let document = match example {
                document if document.starts_with('{') => document.to_owned(),
                entry if entry.starts_with("\"x-") => format!("{{{entry}}}"),
                _ => continue,
            };
            ProvidersFile::from_json(&document).unwrap_or_else(|error| panic!("{error}: {document}"));
            accepted += 1;
        }
        assert_eq!(accepted, documents, "{text}");
    }
}

#[test]
fn pages_name_every_reserved_beginning_of_an_id() {
    let concepts = include_str!("../../../../docs/concepts.md");
    let generic = include_str!("../../../../docs/providers/generic.md");
    for beginning in [DO_NOT_CALL_PREFIX, ENTITY_PREFIX, PROVIDER_HEALTH_PREFIX] {
        let shown = format!("`{beginning}`");
        assert!(concepts.contains(&shown) && generic.contains(&shown), "{shown}");
    }
}
