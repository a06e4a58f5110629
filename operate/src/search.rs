//! Search: which calls a text leads to. The text is an id, an appointment or a phone number.
//!
//! **Every look-up reads a key or an index; nothing searches a table.** There is one for each provider, and at most seven more. Ten are
//! made at the same time.
//!
//! An id that is too long for a key is stored as a hash. People have it as its sender gives it, so each look-up takes the id as it is
//! stored.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use switchhook_aws::calls::{Alias, Loaded, Resolved};
use switchhook_aws::dynamodb::KEY_BYTES_MAX;
use switchhook_domain::{Call, CallId, ENTITY_PREFIX, EventId, Origin, PhoneNumber, Provider};
use switchhook_providers::{appointment_call_id, bounded, derived_call_id, entity_key};

use crate::error::Error;
use crate::selection::{call_of, call_or_entity};
use crate::stack::Stack;
use crate::timeline::{FoundCall, How, find_by_id};

/// Look-ups at the same time.
const CONCURRENCY: usize = 10;
/// Smallest number of digits of a text that is looked for as a phone number.
const NUMBER_DIGITS_MIN: usize = 5;
/// Scheme of the link to a number.
const TEL: &str = "tel:";
/// Smallest number of digits of a number that lacks its plus sign.
const INTERNATIONAL_DIGITS_MIN: usize = 8;
/// Largest number of calls of one appointment or number that a search returns.
const CALLS_MAX: usize = 21;
/// Largest number of calls of one appointment that are read to find the latest. Their index has no time.
const READ_MAX: usize = 200;

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
    /// Key of an entity.
    Entity(CallId),
    Appointment,
    Number(PhoneNumber),
}

/// Looks a text up in every way that it may be meant: as the id of a call, attempt, event, entity or appointment, or as a phone number.
///
/// # Errors
/// A read failed.
pub async fn search(stack: &Stack, text: &str) -> Result<SearchResult, Error> {
    let found: Vec<SearchResult> = stream::iter(look_ups(text, &stack.calls.accounts().await?))
        .map(|look_up| async move { look_up.run(stack, text).await })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    Ok(merged(text, found))
}

/// Puts the results of the look-ups together. The call whose id is made from the appointment is one of the calls of the appointment, if
/// there are others.
fn merged(text: &str, mut found: Vec<SearchResult>) -> SearchResult {
    let by_id = appointment_call_id(text);
    let is_other = |(call, how): &(Call, How)| *how == How::Appointment && call.call_id != by_id;
    if let Some(group) = found.iter().position(|result| result.calls.iter().any(is_other)) {
        let mut named = Vec::new();
        for result in &mut found {
            named.extend(result.calls.extract_if(.., |(call, _)| call.call_id == by_id).map(|(call, _)| call));
        }
        if let Some(group) = found.get_mut(group) {
            group.calls.extend(named.into_iter().next().map(|call| (call, How::Appointment)));
            group.more |= latest(&mut group.calls);
        }
    }
    let (mut result, mut seen, mut unread) = (SearchResult::default(), BTreeSet::new(), BTreeSet::new());
    for SearchResult { calls, event, unreadable, more } in found {
        result.calls.extend(calls.into_iter().filter(|(call, _)| seen.insert(call.call_id.clone())));
        result.event = result.event.or(event);
        result.unreadable.extend(unreadable.into_iter().filter(|id| unread.insert(id.clone())));
        result.more |= more;
    }
    result
}

/// Orders calls by their creation, the latest first, and cuts them to [`CALLS_MAX`]. Returns true if some were left out.
fn latest(calls: &mut Vec<(Call, How)>) -> bool {
    calls.sort_by_key(|(call, _)| Reverse(call.created_at));
    let more = calls.len() > CALLS_MAX;
    calls.truncate(CALLS_MAX);
    more
}

/// Finds a call by its id, a provider's id of one of its attempts, the id of one of its events, its appointment, or the other
/// person's number. Of several calls it returns the latest. `None` if nothing is found.
///
/// # Errors
/// A read failed.
pub async fn find(stack: &Stack, text: &str) -> Result<Option<FoundCall>, Error> {
    let SearchResult { calls, event: _, unreadable, more: _ } = search(stack, text).await?;
    let mut calls = calls.into_iter();
    let Some((call, how)) = calls.next() else {
        // There is a call, and the error says why it cannot be read.
        return match unreadable.first() {
            Some(id) => find_by_id(stack, id).await,
            None => Ok(None),
        };
    };
    let is_group = match &how {
        How::CallId | How::Alias(_) | How::Event(_) | How::Booking => false,
        How::Appointment | How::Number => true,
    };
    let others = calls.filter(|(_, other)| *other == how).map(|(call, _)| call.call_id).chain(unreadable);
    let others = others.filter(|_| is_group).collect();
    Ok(Some(FoundCall { call, how, others }))
}

fn look_ups(text: &str, accounts: &BTreeSet<Provider>) -> Vec<LookUp> {
    if !is_key(text) {
        return Vec::new();
    }
    let ids = [call_of(text), appointment_call_id(text)].into_iter();
    let ids =
        ids.chain(Provider::ALL.iter().chain(accounts).map(|provider| CallId::new(derived_call_id(*provider, text))));
    let mut all: Vec<LookUp> = ids.map(LookUp::Call).collect();
    all.extend(event_of(text).map(LookUp::Event));
    all.extend(entity_of(text).map(LookUp::Entity));
    all.push(LookUp::Appointment);
    all.extend(numbers(text).into_iter().map(LookUp::Number));
    all
}

/// Returns the id of the event that a text names, as it is stored. `None` if the text does not begin with a sender.
fn event_of(text: &str) -> Option<EventId> {
    let (origin, id) = text.split_once(':')?;
    match origin.parse().ok()? {
        Origin::Provider(provider) => Some(EventId::new(bounded(&format!("{provider}:"), id))),
        Origin::Switchhook => Some(EventId::new(text)),
    }
}

/// Returns the key of the entity that a text names: by its key, or by its provider and the provider's id.
fn entity_of(text: &str) -> Option<CallId> {
    if text.starts_with(ENTITY_PREFIX) {
        return Some(call_or_entity(text));
    }
    let (provider, id) = text.split_once(':')?;
    let provider: Provider = provider.parse().ok()?;
    provider.is_configured().then(|| entity_key(provider, id))
}

/// Parses an E.164 number as people write it or paste it. It may come from a link (`tel:`), and have the invisible marks, blanks and hyphens
/// of a page. `None` for any other text.
#[must_use]
pub fn parse_pasted(text: &str) -> Option<PhoneNumber> {
    PhoneNumber::parse_written(&plain(text))
}

/// Returns a text without the scheme `tel:`, and without marks, blanks and hyphens that are not ASCII. Letters stay, because no number has one.
fn plain(text: &str) -> String {
    let marked: String = text.chars().filter(|c| c.is_ascii() || c.is_alphanumeric()).collect();
    let number = marked.trim();
    let is_link = number.get(..TEL.len()).is_some_and(|scheme| scheme.eq_ignore_ascii_case(TEL));
    let number = if is_link { number.get(TEL.len()..) } else { Some(number) };
    number.unwrap_or_default().to_owned()
}

/// Returns the phone numbers that a text may mean. Calls have most numbers with a plus sign, which people leave out.
pub(crate) fn numbers(text: &str) -> Vec<PhoneNumber> {
    let digits = text.chars().filter(char::is_ascii_digit).count();
    let is_address = ["sip:", "sips:"].iter().any(|scheme| text.to_ascii_lowercase().starts_with(scheme));
    if digits < NUMBER_DIGITS_MIN && !is_address {
        return Vec::new();
    }
    if let Some(number) = parse_pasted(text) {
        return vec![number];
    }
    let mut numbers = vec![PhoneNumber::new(text)];
    let pasted = plain(text);
    let is_notation = pasted.chars().all(|c| c.is_ascii_digit() || "-. ()/".contains(c));
    if is_notation && pasted != text {
        numbers.push(PhoneNumber::new(pasted.as_str()));
    }
    if is_notation && digits >= INTERNATIONAL_DIGITS_MIN {
        let digits: String = pasted.chars().filter(char::is_ascii_digit).collect();
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
            Self::Call(id) => by_id(stack, &id, |alias| alias.map_or(How::CallId, How::Alias)).await,
            Self::Event(id) => {
                let Some(stored) = stack.inbox.get(&id).await? else { return Ok(SearchResult::default()) };
                let found = match &stored.call_id {
                    Some(call_id) => by_id(stack, call_id, |_| How::Event(id.clone())).await?,
                    None => SearchResult::default(),
                };
                Ok(SearchResult { event: Some(id), ..found })
            }
            Self::Entity(key) => {
                let Some(entity) = stack.calls.entity(&key).await? else { return Ok(SearchResult::default()) };
                let found = match entity.booking.and_then(|booking| booking.call_id) {
                    Some(call_id) => by_id(stack, &call_id, |_| How::Booking).await?,
                    None => SearchResult::default(),
                };
                Ok(SearchResult { event: entity.latest.into_iter().last().map(|latest| latest.event_id), ..found })
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

/// Reads the call that an id leads to. A row that cannot be read hides no other call.
async fn by_id(stack: &Stack, id: &CallId, how: impl FnOnce(Option<Alias>) -> How) -> Result<SearchResult, Error> {
    match stack.calls.resolve(id).await {
        Ok(Resolved { call: Some(call), alias }) => {
            Ok(SearchResult { calls: vec![(call, how(alias))], ..SearchResult::default() })
        }
        Ok(Resolved { call: None, alias: _ }) => Ok(SearchResult::default()),
        Err(error) if error.is_unreadable() => {
            Ok(SearchResult { unreadable: vec![id.clone()], ..SearchResult::default() })
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads calls, and orders them by their creation.
async fn latest_first(stack: &Stack, ids: Vec<CallId>, more: bool, how: &How) -> Result<SearchResult, Error> {
    // The ids of a number are in the order of time, those of an appointment are in none.
    let read_max = if *how == How::Appointment { READ_MAX } else { CALLS_MAX };
    let more = more || ids.len() > read_max;
    let Loaded { calls, unreadable } = stack.calls.load(ids.into_iter().take(read_max)).await?;
    let mut calls: Vec<(Call, How)> = calls.into_iter().map(|call| (call, how.clone())).collect();
    let more = latest(&mut calls) || more;
    Ok(SearchResult { calls, event: None, unreadable: unreadable.into_iter().map(|(id, _)| id).collect(), more })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use switchhook_domain::{NewCall, Plan, Policy, ProviderSet, RetryPolicy, Timestamp};

    use super::*;

    fn shown(text: &str) -> Vec<String> {
        numbers(text).iter().map(|number| number.as_str().to_owned()).collect()
    }

    #[test]
    fn number_is_also_looked_for_with_its_plus_sign() {
        assert_eq!(shown("+44 7700 900123"), ["+447700900123"]);
        assert_eq!(shown("44 7700 900123"), ["44 7700 900123", "+447700900123"]);
        assert_eq!(shown("0044 7700 900123"), ["0044 7700 900123", "+447700900123"]);
        assert_eq!(shown("SIP:desk@example.com"), ["SIP:desk@example.com"]);
        for pasted in [
            "tel:+447700900123",
            "(+44) 7700 900123",
            "\u{202a}+44 7700 900123\u{202c}",
            "TEL:+44\u{a0}(0)7700\u{2011}900123",
        ] {
            assert_eq!(shown(pasted), ["+447700900123"], "{pasted:?}");
        }
        assert_eq!(shown("tel:447700900123"), ["tel:447700900123", "447700900123", "+447700900123"]);
        for text in ["zoë12345", "+44é7700900123"] {
            assert_eq!(shown(text), [text]);
        }
        assert_eq!(shown("apt_1").len() + shown("call-x").len(), 0);
    }

    #[test]
    fn text_that_can_be_no_key_is_not_looked_up() {
        let look_ups = |text: &str| look_ups(text, &["retell-eu".parse().unwrap()].into());
        assert!(look_ups("").is_empty());
        assert!(look_ups(&"a".repeat(KEY_BYTES_MAX + 1)).is_empty());
        // The call, the call of the appointment and the appointment, and one for each provider.
        let least = 4 + Provider::ALL.len();
        assert_eq!(look_ups(&"a".repeat(KEY_BYTES_MAX)).len(), least);
        assert_eq!(look_ups("44 7700 900123").len(), least + 2);
        assert_eq!(look_ups("generic:44 7700 900123").len(), least + 2);
        assert_eq!(look_ups("x-acme:44 7700 900123").len(), least + 3);
    }

    fn call(id: &str, created_at: i64) -> Call {
        let retry = RetryPolicy {
            attempts_max: 1,
            delay_seconds: 60,
            delay_max_seconds: 600,
            voicemail: false,
            unheard: false,
        };
        let at = Timestamp::from_millis(created_at);
        let plan = Plan {
            providers: vec![Provider::Retell],
            due_at: at,
            not_after: None,
            window: None,
            retry,
            metadata: BTreeMap::new(),
            request_hash: None,
            trace_id: None,
        };
        let (from, to) = (PhoneNumber::new("+15550100"), PhoneNumber::new("+15550101"));
        let appointment_id = Some("a1".to_owned());
        let policy = Policy { inactivity_timeout: Duration::from_secs(900), outcome_providers: ProviderSet::ALL };
        Call::schedule(NewCall { call_id: CallId::new(id), from, to, appointment_id, plan }, &policy, at).call
    }

    fn found(calls: Vec<Call>, how: &How) -> SearchResult {
        let calls = calls.into_iter().map(|call| (call, how.clone())).collect();
        SearchResult { calls, ..SearchResult::default() }
    }

    /// The ids that `merged` returns if the first look-up finds the call by its id, and the last one these calls.
    fn order(of_appointment: Vec<Call>) -> Vec<(String, How)> {
        let by_id = found(vec![call("appointment:a1", 10)], &How::CallId);
        let merged = merged("a1", vec![by_id, found(of_appointment, &How::Appointment)]);
        merged.calls.into_iter().map(|(call, how)| (call.call_id.to_string(), how)).collect()
    }

    #[test]
    fn latest_call_of_an_appointment_comes_first() {
        let expected = |ids: [&str; 3]| ids.map(|id| (id.to_owned(), How::Appointment));
        let all = vec![call("late", 30), call("appointment:a1", 10), call("early", 5)];
        assert_eq!(order(all), expected(["late", "appointment:a1", "early"]));
        let lagging = vec![call("late", 30), call("early", 5)];
        assert_eq!(order(lagging), expected(["late", "appointment:a1", "early"]), "the index may lack the call");
        let only = vec![call("appointment:a1", 10)];
        assert_eq!(order(only), [("appointment:a1".to_owned(), How::CallId)]);
    }

    #[test]
    fn latest_calls_are_kept_if_there_are_too_many() {
        let mut calls: Vec<(Call, How)> = (1..=30).map(|n| (call(&format!("c{n}"), n), How::Appointment)).collect();
        assert!(latest(&mut calls));
        assert_eq!((calls.len(), calls[0].0.call_id.as_str()), (CALLS_MAX, "c30"));
        assert!(!latest(&mut calls));
    }
}
