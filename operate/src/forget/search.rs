//! The search for the calls and events of the persons to forget.
//!
//! **The index of received events is read from end to end**, because recorded and quarantined events are in no row of a call. If
//! an event names no call, or is about an entity, its body is read, and searched for the ids of the calls, the number and the
//! appointment. If Switchhook placed all the calls, the search begins with the first of their creations. The row of another
//! system's call does not tell when its first webhook arrived: one may have been recorded, or have failed, hours before the row was made.
//!
//! **Some items are kept for longer than the index is read.** The record of the request that created a call is found by its key. All
//! conflicting bodies are listed, and those that lead to no target are searched. Such a body may be about another person than the event
//! whose id it has. So it is an item of its own, and the event stays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use switchhook_aws::calls::{Found, Resolved};
use switchhook_aws::inbox::{AttentionKind, ReceivedEvent, creation_id, minute_of};
use switchhook_domain::{Call, CallId, ENTITY_PREFIX, Entity, EventId, PhoneNumber, Provider, Timestamp};
use switchhook_providers::appointment_call_id;

use super::request::{ForgetFilter, ForgetRequest, ids_of};
use super::words::Needle;
use crate::attention;
use crate::concurrent::{CONCURRENCY, concurrently};
use crate::dead_letters::{DeadLetter, DeadLetters};
use crate::error::{Error, Refusal};
use crate::search::numbers;
use crate::selection::Progress;
use crate::stack::Stack;

/// Time before the creation of a call in which its first events may have arrived, if Switchhook placed it.
const BEFORE_CREATION: Duration = Duration::from_secs(60 * 60);
/// Retention of the inbox that a stack has by default. It may have been lowered since.
const RETENTION_DEFAULT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Call or entity whose person is to be forgotten.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) call_id: CallId,
    /// `None` if the row was lost, has expired or cannot be read, or is one of an entity.
    pub(super) row: Option<Call>,
    /// Row of the entity, if the target is one.
    pub(super) entity: Option<Entity>,
    /// True if the row cannot be read. The plan then skips the target, with the reason.
    pub(super) is_unreadable: bool,
    /// True if nobody named this id: a booking suggests it, or an appointment that has other calls. Such a call may never have existed.
    is_guessed: bool,
    /// True if an event shows that the id is one of an attempt of another call.
    is_attempt: bool,
    /// Ids under which its webhooks arrive.
    ids: BTreeSet<CallId>,
    /// Events that are to be erased.
    pub(super) events: BTreeSet<EventId>,
    /// Events whose conflicting body is about the call, and is to be deleted. The events stay.
    pub(super) conflicts: BTreeSet<EventId>,
}

impl Target {
    /// True if the dead letter is about the call.
    pub(super) fn has_letter(&self, letter: &DeadLetter) -> bool {
        letter.call_id.as_ref().is_some_and(|id| self.ids.contains(id))
            || letter.event_id.as_ref().is_some_and(|id| {
                self.events.contains(id) || self.row.as_ref().is_some_and(|call| call.contains_event(id))
            })
    }

    /// True if somebody named it, and it leads to nothing but its own events.
    pub(super) const fn is_unknown(&self) -> bool {
        self.row.is_none() && self.entity.is_none() && !self.is_attempt && !self.is_guessed
    }
}

/// Event that names no call, with the key of its entity.
type Nameless = (Option<CallId>, EventId);

/// Result of a search in the bodies of events that name no call, and in conflicting bodies.
#[derive(Debug, Default)]
pub(super) struct Bodies {
    /// Events whose body holds the id of a call, a provider's call id, the number or the appointment.
    pub(super) found: BTreeSet<Nameless>,
    /// Events whose conflicting body holds one of these, and leads to no target.
    pub(super) conflicts: BTreeSet<EventId>,
    /// Events that cannot be read, so that nobody knows whether they are about the person.
    pub(super) unreadable: BTreeSet<EventId>,
}

/// Calls whose persons are to be forgotten.
#[derive(Debug, Default)]
pub(super) struct Targets {
    targets: BTreeMap<CallId, Target>,
    /// Call that each id leads to.
    owners: BTreeMap<CallId, CallId>,
    examined: usize,
}

impl Targets {
    /// Finds the calls of a filter.
    pub(super) async fn find(stack: &Stack, filter: &ForgetFilter) -> Result<Self, Error> {
        let mut guessed = None;
        let mut ids: Vec<CallId> = match filter {
            ForgetFilter::Calls(calls) if calls.is_empty() => {
                return Err(Refusal::EmptyFilter("name a call with --call, or use --number or --appointment").into());
            }
            ForgetFilter::Calls(calls) => calls.clone(),
            ForgetFilter::Number(number) => {
                let numbers = spellings(number);
                let mut calls = Vec::new();
                for number in &numbers {
                    calls.extend(by_number(stack, number).await?);
                }
                calls
            }
            ForgetFilter::Appointment(id) => {
                let mut calls = stack.calls.calls_of_appointment(id).await?;
                // The index does not hold a call whose row was lost.
                let by_id = appointment_call_id(id);
                guessed = Some(by_id.clone()).filter(|_| !calls.is_empty());
                calls.push(by_id);
                calls
            }
        };
        let named: BTreeSet<CallId> = ids.iter().filter(|id| guessed.as_ref() != Some(*id)).cloned().collect();
        let mut found = Self::default();
        while let Some(id) = ids.pop() {
            if !found.owners.contains_key(&id) {
                ids.extend(found.add(stack, id).await?);
            }
        }
        for target in found.targets.values_mut() {
            target.is_guessed = named.is_disjoint(&target.ids);
        }
        Ok(found)
    }

    /// Adds the call or the entity that an id leads to. Returns the ids of further calls: those about the same phone call, and those of a
    /// booking.
    async fn add(&mut self, stack: &Stack, id: CallId) -> Result<Vec<CallId>, Error> {
        let (entity, resolved, is_unreadable) = match read_rows(stack, &id).await {
            Ok((entity, resolved)) => (entity, resolved, false),
            Err(error) if error.is_unreadable() => (None, Resolved { call: None, alias: None }, true),
            Err(error) => return Err(error.into()),
        };
        let call_id = match (&resolved.call, resolved.alias) {
            (Some(call), _) => call.call_id.clone(),
            (None, Some(alias)) => alias.call_id,
            (None, None) => id.clone(),
        };
        let mut ids = resolved.call.as_ref().map(ids_of).unwrap_or_default();
        let mut others = Vec::new();
        for derived in ids.iter().filter(|derived| **derived != call_id) {
            match stack.calls.find(derived).await {
                Ok(Found::Call(other)) => others.push(other.call_id.clone()),
                Ok(Found::Alias(_) | Found::Nothing) => {}
                // It is a target of its own, which the plan skips.
                Err(error) if error.is_unreadable() => others.push(derived.clone()),
                Err(error) => return Err(error.into()),
            }
        }
        ids.retain(|derived| !others.contains(derived));
        let booking = entity.as_ref().and_then(|entity| entity.booking.as_ref());
        let booked = booking.into_iter().flat_map(|booking| booking.call_id.iter().chain(&booking.superseded));
        others.extend(booked.cloned());
        ids.extend([id, call_id.clone()]);
        self.owners.extend(ids.iter().map(|id| (id.clone(), call_id.clone())));
        let target = self.targets.entry(call_id.clone()).or_insert_with(|| {
            let events = resolved.call.iter().flat_map(|call| call.history.iter());
            let events = events.map(|entry| entry.source_event_id.clone());
            let of_entity = entity.iter().flat_map(|entity| entity.latest.iter());
            let creation = Some(creation_id(&call_id)).filter(|_| !call_id.is_entity());
            let events = events.chain(of_entity.map(|position| position.event_id.clone())).chain(creation).collect();
            let (ids, conflicts) = (BTreeSet::new(), BTreeSet::new());
            Target {
                call_id,
                row: resolved.call,
                entity,
                is_unreadable,
                is_guessed: false,
                is_attempt: false,
                ids,
                events,
                conflicts,
            }
        });
        target.ids.extend(ids);
        Ok(others)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.targets.values()
    }

    /// Number of events that the search has read from the index.
    pub(super) const fn examined(&self) -> usize {
        self.examined
    }

    /// Finds those events of the calls that still hold personal data. Searches the bodies of the events that name no call.
    pub(super) async fn search_inbox(
        &mut self,
        stack: &Stack,
        request: &ForgetRequest,
        progress: Progress<'_>,
    ) -> Result<Bodies, Error> {
        let (mut nameless, mut others) = self.read_index(stack, request, progress).await?;
        while !others.is_empty() {
            for id in others {
                self.add(stack, id).await?;
            }
            // An event of a call that was added may have been read before the one that led to the call.
            (nameless, others) = self.read_index(stack, request, progress).await?;
        }
        for target in self.targets.values_mut() {
            target.events = unerased(stack, std::mem::take(&mut target.events)).await?;
        }
        let needles = self.needles(&request.filter);
        let mut bodies = search_bodies(stack, &needles, nameless).await?;
        self.search_conflicts(stack, &needles, &mut bodies).await?;
        Ok(bodies)
    }

    /// Adds the events of dead letters to the targets that these are about, if they still hold personal data. Such an event may have arrived
    /// before the time since which the index was read.
    pub(super) async fn add_letters(&mut self, stack: &Stack, letters: &DeadLetters) -> Result<(), Error> {
        for target in self.targets.values_mut() {
            let own = letters.iter().map(|(_, letter)| letter).filter(|letter| target.has_letter(letter));
            let events: BTreeSet<EventId> = own.filter_map(|letter| letter.event_id.clone()).collect();
            target.events.extend(unerased(stack, events).await?);
        }
        Ok(())
    }

    /// Finds the conflicting bodies that lead to a target, and the others that hold one of the needles. An event that is erased loses its
    /// conflicting body anyway.
    async fn search_conflicts(&mut self, stack: &Stack, needles: &[Needle], bodies: &mut Bodies) -> Result<(), Error> {
        let mut others = BTreeSet::new();
        for conflict in attention::all(stack, AttentionKind::Conflict, usize::MAX).await? {
            let Some(event_id) = conflict.event_id else { continue };
            let owner = conflict.call_id.and_then(|call_id| self.owners.get(&call_id));
            match owner.and_then(|owner| self.targets.get_mut(owner)) {
                Some(target) if target.events.contains(&event_id) => {}
                Some(target) => target.conflicts.extend([event_id]),
                None => others.extend([event_id]),
            }
        }
        let searched = others.into_iter().map(|id| async move {
            let body = stack.inbox.get_conflict(&id).await.map(|conflict| conflict.map(|conflict| conflict.body));
            Ok::<_, Error>((is_in_body(needles, body.map(Option::unwrap_or_default))?, id))
        });
        for (is_found, id) in concurrently(CONCURRENCY, searched).await? {
            match is_found {
                Some(true) => bodies.conflicts.extend([id]),
                Some(false) => {}
                None => bodies.unreadable.extend([id]),
            }
        }
        Ok(())
    }

    /// Reads the index of received events, and adds each event to the target that its call id leads to. Returns the events that
    /// name no call, and further calls: a target without a row may be the id of an attempt, and its events name the call.
    async fn read_index(
        &mut self,
        stack: &Stack,
        request: &ForgetRequest,
        progress: Progress<'_>,
    ) -> Result<(Vec<Nameless>, BTreeSet<CallId>), Error> {
        let now = stack.now();
        // The events may have been stored with a longer retention than the present one.
        let oldest = now.minus(stack.inbox_retention().max(RETENTION_DEFAULT));
        let searched = || self.first_created_at().map_or(oldest, |first| first.max(oldest));
        let minutes = minute_of(request.since.unwrap_or_else(searched))..=minute_of(now);
        let all = minutes.clone().count() as u64;
        let (mut nameless, mut others) = (Vec::new(), BTreeSet::new());
        let mut done = 0;
        self.examined = 0;
        let mut read = stream::iter(minutes).map(|minute| received_in(stack, minute)).buffered(CONCURRENCY);
        while let Some(events) = read.next().await {
            for ReceivedEvent { event_id, call_id, .. } in events? {
                self.examined += 1;
                let Some(call_id) = call_id else {
                    nameless.push((None, event_id));
                    continue;
                };
                if let Some(owner) = self.owners.get(&call_id) {
                    if let Some(target) = self.targets.get_mut(owner) {
                        target.events.insert(event_id);
                    }
                } else if call_id.is_entity() {
                    nameless.push((Some(call_id), event_id));
                } else if let Some(attempt) = self.attempt_of(&event_id) {
                    attempt.is_attempt = true;
                    others.insert(call_id);
                }
            }
            done += 1;
            progress(done, all);
        }
        Ok((nameless, others))
    }

    /// Returns the target without a row with whose id the event's id begins. Example: the target `retell:call_1` and the event
    /// `retell:call_1:call_ended`. The target is then an attempt, and the event names its call.
    fn attempt_of(&mut self, event_id: &EventId) -> Option<&mut Target> {
        let mut without_row = self.targets.values_mut().filter(|target| target.row.is_none());
        without_row.find(|target| {
            event_id.as_str().strip_prefix(target.call_id.as_str()).is_some_and(|rest| rest.starts_with(':'))
        })
    }

    /// Returns the earliest time at which an event of the calls may have arrived. `None` if a call has no row, or Switchhook did not place
    /// it. A guessed call without a row does not count: most such calls never existed, and all minutes of the retention would be read for
    /// them.
    fn first_created_at(&self) -> Option<Timestamp> {
        let is_known = |target: &Target| match &target.row {
            Some(call) => call.plan.is_some(),
            None => target.is_guessed,
        };
        let is_complete = self.targets.values().all(is_known);
        let rows = self.targets.values().filter_map(|target| target.row.as_ref());
        let first = rows.map(|call| call.created_at).min().filter(|_| is_complete);
        first.map(|first| first.minus(BEFORE_CREATION))
    }

    /// Returns the texts to search for in bodies: the ids of the calls and entities, their ids at their providers, the number and the
    /// appointment.
    fn needles(&self, filter: &ForgetFilter) -> Vec<Needle> {
        let records =
            self.targets.values().filter_map(|target| target.row.as_ref()).flat_map(|call| &call.attempt_records);
        let mut ids: BTreeSet<String> = records.filter_map(|record| record.provider_call_id.clone()).collect();
        ids.extend(self.owners.keys().map(ToString::to_string));
        ids.extend(self.owners.keys().filter_map(id_at_provider).map(str::to_owned));
        let numbers = match filter {
            ForgetFilter::Calls(_) => Vec::new(),
            ForgetFilter::Number(number) => spellings(number),
            ForgetFilter::Appointment(id) => {
                ids.insert(id.clone());
                Vec::new()
            }
        };
        let numbers: BTreeSet<String> =
            numbers.iter().map(|number| number.canonical().as_str().trim_start_matches('+').to_owned()).collect();
        ids.into_iter().filter_map(Needle::id).chain(numbers.into_iter().filter_map(Needle::number)).collect()
    }
}

/// Reads the row of an entity, and the row of the call that the id leads to.
async fn read_rows(stack: &Stack, id: &CallId) -> Result<(Option<Entity>, Resolved), switchhook_aws::Error> {
    let entity = if id.is_entity() { stack.calls.entity(id).await? } else { None };
    Ok((entity, stack.calls.resolve(id).await?))
}

/// Returns the id that a provider gave to a call or to an entity. Example: `pi_1234` for `entity:x-pay:pi_1234`. `None` if the id names
/// no provider.
fn id_at_provider(id: &CallId) -> Option<&str> {
    let id = id.as_str();
    let (provider, own_id) = id.strip_prefix(ENTITY_PREFIX).unwrap_or(id).split_once(':')?;
    provider.parse::<Provider>().is_ok().then_some(own_id)
}

/// Searches the bodies of events that name no call.
async fn search_bodies(stack: &Stack, needles: &[Needle], events: Vec<Nameless>) -> Result<Bodies, Error> {
    let searched = events.into_iter().map(|(entity, id)| async move {
        let read = async {
            match stack.inbox.get(&id).await?.filter(|stored| stored.erased_at.is_none()) {
                Some(stored) => stack.inbox.read_body(&stored).await,
                None => Ok(Vec::new()),
            }
        };
        Ok::<_, Error>((is_in_body(needles, read.await)?, (entity, id)))
    });
    let mut bodies = Bodies::default();
    for (is_found, (entity, id)) in concurrently(CONCURRENCY, searched).await? {
        match is_found {
            Some(true) => bodies.found.extend([(entity, id)]),
            Some(false) => {}
            None => bodies.unreadable.extend([id]),
        }
    }
    Ok(bodies)
}

/// True if a body that was read holds one of the needles. `None` if the body cannot be read.
fn is_in_body(needles: &[Needle], body: Result<Vec<u8>, switchhook_aws::Error>) -> Result<Option<bool>, Error> {
    match body {
        Ok(body) => Ok(Some(needles.iter().any(|needle| needle.is_in(&body)))),
        Err(error) if error.is_unreadable() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns every event that arrived in a minute, whether it is folded or not.
pub(super) async fn received_in(stack: &Stack, minute: i64) -> Result<Vec<ReceivedEvent>, Error> {
    let mut found = Vec::new();
    for shard in stack.inbox.received_shards(minute) {
        let mut pages = stack.inbox.received_pages(minute, shard);
        while let Some(page) = pages.next().await? {
            found.extend(page.items);
        }
    }
    Ok(found)
}

/// Returns the numbers that the text may mean. A call may also have a short number, a name, or no number of the other person.
pub(super) fn spellings(number: &PhoneNumber) -> Vec<PhoneNumber> {
    let found = numbers(number.as_str());
    if found.is_empty() { vec![number.clone()] } else { found }
}

async fn by_number(stack: &Stack, number: &PhoneNumber) -> Result<Vec<CallId>, Error> {
    let mut pages = stack.calls.by_party(number);
    let mut calls = Vec::new();
    while let Some(page) = pages.next().await? {
        calls.extend(page.items);
    }
    Ok(calls)
}

/// Returns those of the events whose personal data is still in the inbox. An event that cannot be read is among them.
async fn unerased(stack: &Stack, events: BTreeSet<EventId>) -> Result<BTreeSet<EventId>, Error> {
    let found = events.into_iter().map(|id| async move {
        match stack.inbox.get(&id).await {
            Ok(stored) => Ok(stored.filter(|stored| !stored.is_erased()).map(|_| id)),
            Err(error) if error.is_unreadable() => Ok(Some(id)),
            Err(error) => Err(Error::from(error)),
        }
    });
    Ok(concurrently(CONCURRENCY, found).await?.into_iter().flatten().collect())
}
