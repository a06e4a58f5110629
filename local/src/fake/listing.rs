//! Lists of calls: `POST /v3/list-calls`, in pages, the newest call first or last.

use std::cmp::Reverse;

use serde_json::{Map, Value, json};

use super::State;
use super::call::FakeCall;
use super::records::RequestResult;
use super::response::{ApiResponse, respond};

/// Calls per page if the request does not say.
const LIMIT_DEFAULT: u64 = 50;
const LIMIT_MAX: u64 = 1_000;

impl State {
    /// Answers with one page of the calls that match all filters. `pagination_key` is the id of the last call of the
    /// page before.
    pub(super) fn list(&mut self, body: &Value, now: i64) -> ApiResponse {
        let filters = body.pointer("/filter_criteria/metadata").and_then(Value::as_array).cloned().unwrap_or_default();
        let started = body.pointer("/filter_criteria/start_timestamp").cloned().unwrap_or_default();
        let matches = |call: &FakeCall| {
            filters.iter().all(|filter| matches_metadata(filter, &call.metadata)) && matches_start(&started, call, now)
        };
        let mut known: Vec<(&String, &FakeCall)> = self
            .calls
            .iter()
            .filter(|(_, call)| call.lookup_result(now) != RequestResult::NotFound && matches(call))
            .collect();
        if body["sort_order"] == "ascending" {
            known.sort_by_key(|(id, call)| (call.created_ms, *id));
        } else {
            known.sort_by_key(|(id, call)| Reverse((call.created_ms, *id)));
        }
        let after = body["pagination_key"].as_str();
        let skipped = after.and_then(|key| known.iter().position(|(id, _)| *id == key)).map_or(0, |place| place + 1);
        let limit = usize::try_from(body["limit"].as_u64().unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX)).unwrap_or(0);
        let page: Vec<&(&String, &FakeCall)> = known.iter().skip(skipped).take(limit).collect();
        let has_more = known.len() > skipped + page.len();
        let first_result = page.first().map_or(RequestResult::NotFound, |(_, call)| call.lookup_result(now));
        let items: Vec<Value> = page.iter().map(|(id, call)| call.to_json(id, now)).collect();
        let last_id = page.last().filter(|_| has_more).map(|(id, _)| id.as_str());
        let mut answer = json!({"items": items, "has_more": has_more});
        if let (Some(id), Some(answer)) = (last_id, answer.as_object_mut()) {
            answer.insert("pagination_key".to_owned(), id.into());
        }
        // Only a list that is filtered by metadata asks about one attempt.
        if !filters.is_empty() {
            let asked: Map<String, Value> = filters
                .iter()
                .filter_map(|filter| Some((filter["key"].as_str()?.to_owned(), filter["value"].clone())))
                .collect();
            self.record(&Value::Object(asked), now, first_result);
        }
        respond(200, &answer)
    }
}

/// True if the metadata has the value that the filter requires.
fn matches_metadata(filter: &Value, metadata: &Value) -> bool {
    let key = filter.get("key").and_then(Value::as_str);
    key.is_some_and(|key| metadata.get(key).is_some() && metadata.get(key) == filter.get("value"))
}

/// True if the `start_timestamp` of the call is in the range of the filter. A call that nobody has answered has none, so no
/// range contains it. The fake provider knows the operator `bt` alone.
fn matches_start(filter: &Value, call: &FakeCall, now: i64) -> bool {
    let limit = |index: usize| filter.get("value").and_then(|range| range.get(index)?.as_i64());
    let (Some(from), Some(until)) = (limit(0), limit(1)) else { return true };
    call.answered_ms.is_some_and(|at| at <= now && (from..=until).contains(&at))
}
