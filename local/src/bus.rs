//! An event bus that stores all events it receives from `PutEvents`, in order, and delivers none.
//!
//! EventBridge rejects a whole request only for its format or size. Otherwise it accepts or rejects each entry by
//! itself, and reports that in the response. **A sender that checks only the HTTP status loses events.** Tests use
//! [`Bus::fail_entries`] to prove that the relay does not.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::error::LocalError;
use crate::journal::{Change, Journal};
use crate::queue::message_id;
use crate::response::ServiceResponse;
use crate::sync::{Signal, Watch, lock};

pub(crate) const JOURNAL: &str = "switchhook-local-bus";

pub const PUT_EVENTS_ENTRIES_MAX: usize = 10;
/// Size limit for all entries of a request together. EventBridge documents "less than 1 MB", and this is the smaller of
/// the two possible meanings.
pub const PUT_EVENTS_BYTES_MAX: usize = 1_000_000;
/// Number of events that the bus keeps. Older events are deleted.
pub const EVENTS_MAX: usize = 100_000;

/// Bytes that the time of an entry adds to its size.
const TIME_BYTES: usize = 14;

/// An event that the bus accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BusEvent {
    /// Position in the bus, counted from 0.
    pub index: u64,
    pub id: String,
    pub bus: String,
    pub source: String,
    pub detail_type: String,
    /// JSON text, unchanged.
    pub detail: String,
    pub resources: Vec<String>,
    pub trace_header: Option<String>,
    /// Time in the entry, or the time of receipt if the entry has none.
    pub time_ms: u64,
    pub received_at_ms: u64,
}

/// Function that decides about an event that would be accepted. It returns an error code to reject the event.
pub type EntryFault = Arc<dyn Fn(&BusEvent) -> Option<String> + Send + Sync>;

pub struct Bus {
    state: Mutex<State>,
    fault: Mutex<Option<EntryFault>>,
    signal: Signal,
    journal: Option<Journal>,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    next_index: u64,
    events: VecDeque<BusEvent>,
}

impl Bus {
    pub(crate) fn open(journal: Option<Journal>, clock: Clock) -> Result<Self, LocalError> {
        let mut events = VecDeque::new();
        if let Some(journal) = &journal {
            events.extend(journal.read::<BusEvent>()?);
        }
        let next_index = events.back().map_or(0, |last| last.index + 1);
        Ok(Self {
            state: Mutex::new(State { next_index, events }),
            fault: Mutex::new(None),
            signal: Signal::default(),
            journal,
            clock,
        })
    }

    /// Events with this index or a higher one, oldest first.
    pub fn events_since(&self, index: u64) -> Vec<BusEvent> {
        let state = lock(&self.state);
        let start = state.events.partition_point(|event| event.index < index);
        state.events.iter().skip(start).cloned().collect()
    }

    /// Index of the next event, which equals the number of events so far.
    pub fn next_index(&self) -> u64 {
        lock(&self.state).next_index
    }

    /// Returns a watcher that resolves when events arrive.
    pub fn watch(&self) -> Watch {
        self.signal.watch()
    }

    /// Rejects all entries for which `fault` returns an error code. `None` accepts all entries again.
    pub fn fail_entries(&self, fault: Option<EntryFault>) {
        *lock(&self.fault) = fault;
    }

    pub(crate) fn handle(&self, operation: &str, body: &[u8]) -> ServiceResponse {
        if operation != "PutEvents" {
            return ServiceResponse::unknown_operation(operation);
        }
        let request: PutEvents = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(error) => return ServiceResponse::error(400, "SerializationException", &error.to_string()),
        };
        match self.put(request.entries) {
            Ok(answer) => ServiceResponse::ok(&answer),
            Err(rejection) => rejection,
        }
    }

    fn put(&self, entries: Vec<Entry>) -> Result<Value, ServiceResponse> {
        let invalid = |message: &str| ServiceResponse::error(400, "ValidationException", message);
        if entries.is_empty() || entries.len() > PUT_EVENTS_ENTRIES_MAX {
            return Err(invalid(
                "1 validation error detected: Value at 'entries' failed to satisfy constraint: Member must have length \
                 between 1 and 10",
            ));
        }
        if entries.iter().map(Entry::bytes).sum::<usize>() >= PUT_EVENTS_BYTES_MAX {
            return Err(invalid("Total size of the entries in the request is over the limit."));
        }

        let fault = lock(&self.fault).clone();
        let mut state = lock(&self.state);
        let mut results = Vec::with_capacity(entries.len());
        let mut events: Vec<BusEvent> = Vec::with_capacity(entries.len());
        let mut failed = 0;
        let mut index = state.next_index;
        for entry in entries {
            let accepted = entry.check().and_then(|()| {
                let event = entry.into_event(index, self.clock.now_ms());
                match fault.as_ref().and_then(|fault| fault(&event)) {
                    Some(code) => Err((code, "injected fault".to_owned())),
                    None => Ok(event),
                }
            });
            match accepted {
                Ok(event) => {
                    results.push(json!({ "EventId": event.id }));
                    events.push(event);
                    index += 1;
                }
                Err((code, message)) => {
                    failed += 1;
                    results.push(json!({ "ErrorCode": code, "ErrorMessage": message }));
                }
            }
        }
        self.store(&mut state, events).map_err(|error| internal(&error))?;
        drop(state);
        self.signal.changed();
        Ok(json!({ "FailedEntryCount": failed, "Entries": results }))
    }

    /// Stores events in one commit, and deletes the oldest ones beyond the limit.
    fn store(&self, state: &mut State, events: Vec<BusEvent>) -> Result<(), LocalError> {
        let excess = (state.events.len() + events.len()).saturating_sub(EVENTS_MAX);
        if let Some(journal) = &self.journal {
            let erased = state.events.iter().take(excess).map(|event| Change::Erase(event.index));
            let written = events.iter().map(|event| Change::Write(event.index, event));
            journal.change(&erased.chain(written).collect::<Vec<_>>())?;
        }
        state.next_index += u64::try_from(events.len()).unwrap_or(u64::MAX);
        state.events.drain(..excess);
        state.events.extend(events);
        Ok(())
    }
}

impl std::fmt::Debug for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bus").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutEvents {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    /// Seconds since the Unix epoch.
    time: Option<f64>,
    source: Option<String>,
    #[serde(default)]
    resources: Vec<String>,
    detail_type: Option<String>,
    detail: Option<String>,
    event_bus_name: Option<String>,
    trace_header: Option<String>,
}

impl Entry {
    fn bytes(&self) -> usize {
        let texts = [&self.source, &self.detail_type, &self.detail].into_iter().flatten().chain(&self.resources);
        texts.map(String::len).sum::<usize>() + self.time.map_or(0, |_| TIME_BYTES)
    }

    fn check(&self) -> Result<(), (String, String)> {
        for (name, value) in [("Source", &self.source), ("DetailType", &self.detail_type), ("Detail", &self.detail)] {
            if value.as_deref().unwrap_or_default().is_empty() {
                return Err((
                    "InvalidArgument".to_owned(),
                    format!("Parameter {name} is not valid. Reason: {name} is a required argument."),
                ));
            }
        }
        let detail = self.detail.as_deref().unwrap_or_default();
        match serde_json::from_str::<serde_json::Map<String, Value>>(detail) {
            Ok(_) => Ok(()),
            Err(_) => Err(("MalformedDetail".to_owned(), "Detail is malformed.".to_owned())),
        }
    }

    fn into_event(self, index: u64, now_ms: u64) -> BusEvent {
        BusEvent {
            index,
            id: message_id(index),
            bus: self.event_bus_name.unwrap_or_else(|| "default".to_owned()),
            source: self.source.unwrap_or_default(),
            detail_type: self.detail_type.unwrap_or_default(),
            detail: self.detail.unwrap_or_default(),
            resources: self.resources,
            trace_header: self.trace_header,
            time_ms: self.time.map_or(now_ms, |seconds| (seconds * 1_000.0) as u64),
            received_at_ms: now_ms,
        }
    }
}

fn internal(error: &LocalError) -> ServiceResponse {
    tracing::error!(error = error as &dyn std::error::Error, "event bus of the local cloud failed");
    ServiceResponse::error(500, "InternalException", &error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::database::Database;

    fn open(database: &Database) -> Bus {
        let journal = Journal::open(database, JOURNAL).unwrap();
        Bus::open(Some(journal), Clock::starting_at(UNIX_EPOCH + Duration::from_secs(7))).unwrap()
    }

    fn put(bus: &Bus, entries: &[Value]) -> (u16, Value) {
        let answer = bus.handle("PutEvents", json!({ "Entries": entries }).to_string().as_bytes());
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }

    fn entry(detail: &str) -> Value {
        json!({ "Source": "switchhook", "DetailType": "call.completed", "Detail": detail, "Time": 5.25 })
    }

    #[test]
    fn events_are_kept_in_order_over_a_restart() {
        let database = Database::memory().unwrap();
        let bus = open(&database);
        put(&bus, &[entry("{\"n\":0}"), entry("{\"n\":1}")]);
        put(&bus, &[entry("{\"n\":2}")]);

        for bus in [bus, open(&database)] {
            let details: Vec<String> = bus.events_since(1).into_iter().map(|event| event.detail).collect();
            assert_eq!(details, ["{\"n\":1}", "{\"n\":2}"]);
            assert_eq!(bus.next_index(), 3);
            assert_eq!(bus.events_since(0)[0].time_ms, 5_250);
            assert_eq!(bus.events_since(3), []);
        }
    }

    #[test]
    fn bad_entry_fails_alone() {
        let bus = open(&Database::memory().unwrap());
        let no_detail = json!({ "Source": "switchhook", "DetailType": "call.completed" });
        let (status, answer) = put(&bus, &[entry("not json"), entry("{}"), no_detail, entry("[]")]);

        assert_eq!((status, &answer["FailedEntryCount"]), (200, &json!(3)));
        let codes: Vec<&Value> =
            answer["Entries"].as_array().unwrap().iter().map(|entry| &entry["ErrorCode"]).collect();
        assert_eq!(
            codes,
            [&json!("MalformedDetail"), &Value::Null, &json!("InvalidArgument"), &json!("MalformedDetail")]
        );
        assert_eq!(bus.next_index(), 1);
    }

    #[test]
    fn entry_can_be_made_to_fail() {
        let bus = open(&Database::memory().unwrap());
        bus.fail_entries(Some(Arc::new(|event| event.detail.contains('1').then(|| "ThrottlingException".to_owned()))));
        let (_, answer) = put(&bus, &[entry("{\"n\":0}"), entry("{\"n\":1}"), entry("{\"n\":2}")]);

        assert_eq!(answer["FailedEntryCount"], 1);
        assert_eq!(answer["Entries"][1]["ErrorCode"], "ThrottlingException");
        let details: Vec<String> = bus.events_since(0).into_iter().map(|event| event.detail).collect();
        assert_eq!(details, ["{\"n\":0}", "{\"n\":2}"]);
    }

    #[test]
    fn request_has_one_to_ten_entries_and_less_than_a_megabyte() {
        let bus = open(&Database::memory().unwrap());
        let large = entry(&json!({ "x": "y".repeat(PUT_EVENTS_BYTES_MAX / 10) }).to_string());

        assert_eq!(put(&bus, &[]).0, 400);
        assert_eq!(put(&bus, &vec![entry("{}"); 11]).0, 400);
        assert_eq!(put(&bus, &vec![large; 10]).0, 400);
        assert_eq!(put(&bus, &vec![entry("{}"); 10]).0, 200);
        assert_eq!(bus.next_index(), 10);
    }
}
