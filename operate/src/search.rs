//! Search: which calls a text leads to. The text is an id, an appointment or a phone number.
//!
//! **Every look-up reads a key or an index; nothing searches a table.** There are at most eleven, ten of them at the same time.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use switchhook_aws::calls::Loaded;
use switchhook_aws::dynamodb::KEY_BYTES_MAX;
use switchhook_domain::{Call, CallId, EventId, PhoneNumber, Provider};

use crate::error::Error;
use crate::stack::Stack;
use crate::timeline::{FoundCall, How};

/// Look-ups at the same time.
const CONCURRENCY: usize = 10;
/// Smallest number of digits of a text that is looked for as a phone number.
const NUMBER_DIGITS_MIN: usize = 5;
/// Smallest number of digits of a number that lacks its plus sign.
const INTERNATIONAL_DIGITS_MIN: usize = 8;
/// Largest number of calls of one appointment or number that are read.
const CALLS_MAX: usize = 21;

/// Everything that a text leads to.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// Calls, each once, the best match first. Those of an appointment or a number begin with the latest.
    pub calls: Vec<(Call, How)>,
    /// The received event whose id is the text.
    pub event: Option<EventId>,
    /// Calls whose rows cannot be read.
    pub unreadable: Vec<CallId>,
    /// True if an appointment or a number has more calls than were read.
    pub more: bool,
}

/// Look-up of a text, in the order in which its results are shown.
enum LookUp {
    Call(CallId),
    Event(EventId),
    Appointment,
    Number(PhoneNumber),
}

/// Looks a text up as the id of a call, a provider's id of an attempt, the id of an event, an appointment, and a phone number.
///
/// # Errors
/// A read failed.
pub async fn search(stack: &Stack, text: &str) -> Result<SearchResult, Error> {
    let found: Vec<SearchResult> = stream::iter(look_ups(text))
        .map(|look_up| async move { look_up.run(stack, text).await })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    let (mut result, mut seen) = (SearchResult::default(), BTreeSet::new());
    for SearchResult { calls, event, unreadable, more } in found {
        result.calls.extend(calls.into_iter().filter(|(call, _)| seen.insert(call.call_id.clone())));
        result.event = result.event.or(event);
        result.unreadable.extend(unreadable);
        result.more |= more;
    }
    Ok(result)
}

/// Finds a call by its id, a provider's id of one of its attempts, the id of one of its events, its appointment, or the other
/// person's number. Of several calls it returns the latest. `None` if nothing is found.
///
/// # Errors
/// A read failed.
pub async fn find(stack: &Stack, text: &str) -> Result<Option<FoundCall>, Error> {
    let mut calls = search(stack, text).await?.calls.into_iter();
    let Some((call, how)) = calls.next() else { return Ok(None) };
    let is_group = match &how {
        How::CallId | How::Alias(_) | How::Event(_) => false,
        How::Appointment | How::Number => true,
    };
    let others = calls.filter(|(_, other)| is_group && *other == how).map(|(call, _)| call.call_id).collect();
    Ok(Some(FoundCall { call, how, others }))
}

fn look_ups(text: &str) -> Vec<LookUp> {
    let ids = [text.to_owned(), format!("appointment:{text}")].into_iter();
    let ids = ids.chain(Provider::ALL.iter().map(|provider| format!("{provider}:{text}")));
    let mut all: Vec<LookUp> = ids.filter(|id| is_key(id)).map(|id| LookUp::Call(CallId::new(id))).collect();
    if text.is_empty() || !is_key(text) {
        return Vec::new();
    }
    let event_id = EventId::new(text);
    all.extend(event_id.origin().is_some().then_some(LookUp::Event(event_id)));
    all.push(LookUp::Appointment);
    all.extend(numbers(text).into_iter().map(LookUp::Number));
    all
}

/// Returns the phone numbers that a text may mean. Calls have most numbers with a plus sign, which people leave out.
fn numbers(text: &str) -> Vec<PhoneNumber> {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let is_address = ["sip:", "sips:"].iter().any(|scheme| text.to_ascii_lowercase().starts_with(scheme));
    if digits < NUMBER_DIGITS_MIN && !is_address {
        return Vec::new();
    }
    let mut numbers = vec![PhoneNumber::new(text)];
    let is_notation = text.chars().all(|c| c.is_ascii_digit() || "-. ()/".contains(c));
    if is_notation && digits >= INTERNATIONAL_DIGITS_MIN {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        numbers.push(PhoneNumber::new(format!("+{}", digits.strip_prefix("00").unwrap_or(&digits))));
    }
    numbers.retain(|number| is_key(number.canonical().as_str()));
    numbers
}

const fn is_key(text: &str) -> bool {
    !text.is_empty() && text.len() <= KEY_BYTES_MAX
}

impl LookUp {
    async fn run(self, stack: &Stack, text: &str) -> Result<SearchResult, Error> {
        match self {
            Self::Call(id) => {
                let resolved = stack.calls.resolve(&id).await?;
                let how = resolved.alias.map_or(How::CallId, How::Alias);
                Ok(SearchResult {
                    calls: resolved.call.into_iter().map(|call| (call, how.clone())).collect(),
                    ..SearchResult::default()
                })
            }
            Self::Event(id) => {
                let Some(stored) = stack.inbox.get(&id).await? else { return Ok(SearchResult::default()) };
                let call = match &stored.call_id {
                    Some(call_id) => stack.calls.resolve(call_id).await?.call,
                    None => None,
                };
                let calls = call.into_iter().map(|call| (call, How::Event(id.clone()))).collect();
                Ok(SearchResult { calls, event: Some(id), ..SearchResult::default() })
            }
            Self::Appointment => {
                let ids = stack.calls.calls_of_appointment(text).await?;
                latest_first(stack, ids, false, &How::Appointment).await
            }
            Self::Number(number) => {
                let page = stack.calls.by_party(&number).next().await?;
                let (ids, more) = page.map(|page| (page.items, page.next.is_some())).unwrap_or_default();
                latest_first(stack, ids, more, &How::Number).await
            }
        }
    }
}

/// Reads calls, and orders them by their creation.
async fn latest_first(stack: &Stack, ids: Vec<CallId>, more: bool, how: &How) -> Result<SearchResult, Error> {
    let more = more || ids.len() > CALLS_MAX;
    let Loaded { mut calls, unreadable } = stack.calls.load(ids.into_iter().take(CALLS_MAX)).await?;
    calls.sort_by_key(|call| Reverse(call.created_at));
    Ok(SearchResult {
        calls: calls.into_iter().map(|call| (call, how.clone())).collect(),
        event: None,
        unreadable: unreadable.into_iter().map(|(id, _)| id).collect(),
        more,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        numbers(text).iter().map(|number| number.as_str().to_owned()).collect()
    }

    #[test]
    fn number_is_also_looked_for_with_its_plus_sign() {
        assert_eq!(shown("+44 7700 900123"), ["+44 7700 900123"]);
        assert_eq!(shown("44 7700 900123"), ["44 7700 900123", "+447700900123"]);
        assert_eq!(shown("0044 7700 900123"), ["0044 7700 900123", "+447700900123"]);
        assert_eq!(shown("SIP:desk@example.com"), ["SIP:desk@example.com"]);
        assert_eq!(shown("apt_1").len() + shown("call-x").len(), 0);
    }

    #[test]
    fn text_that_can_be_no_key_is_not_looked_up() {
        assert!(look_ups("").is_empty());
        assert!(look_ups(&"a".repeat(KEY_BYTES_MAX + 1)).is_empty());
        assert_eq!(look_ups(&"a".repeat(KEY_BYTES_MAX)).len(), 2, "the exact id and the appointment");
        // Five keys of its own, and one for each provider.
        let all = 5 + Provider::ALL.len();
        assert_eq!(look_ups("44 7700 900123").len(), all);
        assert_eq!(look_ups("generic:44 7700 900123").len(), all);
    }
}
