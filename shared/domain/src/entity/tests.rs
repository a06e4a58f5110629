use super::*;
use crate::provider::Provider;

const KEY: &str = "entity:generic:pay_1";
const SECOND: i64 = 1_000;

/// Event of an entity. `at` is its time in seconds, `counter` the sender's counter; it is received at second 100.
fn event(id: &str, at: Option<i64>, counter: Option<u32>) -> ProviderEvent {
    let (event_id, origin) = (EventId::new(format!("generic:{id}")), Origin::Provider(Provider::Generic));
    let received_at = Timestamp::from_millis(100 * SECOND);
    ProviderEvent {
        entity: Some(EntityReport {
            id: Some("pay_1".to_owned()),
            occurred_at: at.map(|at| Timestamp::from_millis(at * SECOND)),
            sequence: counter,
            data: BTreeMap::from([("amount".to_owned(), Scalar::Integer(5))]),
        }),
        trace_id: TraceId::new("trace"),
        ..ProviderEvent::new(event_id, origin, "payment.changed", CallId::new(KEY), received_at)
    }
}

fn fold(entity: Option<&Entity>, events: &[ProviderEvent]) -> EntityFold {
    fold_entity(entity, &CallId::new(KEY), events)
}

/// Folds each event by itself. Returns the row, the ids that were announced, and the dispositions.
fn folded(events: &[ProviderEvent]) -> (Option<Entity>, Vec<String>, Vec<Disposition>) {
    let (mut entity, mut announced, mut dispositions) = (None, Vec::new(), Vec::new());
    for event in events {
        let fold = fold(entity.as_ref(), std::slice::from_ref(event));
        dispositions.extend(fold.dispositions);
        if let Some(next) = fold.next {
            announced.extend(next.domain_events().into_iter().map(|event| event.event_id));
            entity = Some(next);
        }
    }
    (entity, announced, dispositions)
}

fn permutations(events: &[ProviderEvent]) -> Vec<Vec<ProviderEvent>> {
    if events.len() < 2 {
        return vec![events.to_vec()];
    }
    (0..events.len())
        .flat_map(|first| {
            let mut rest = events.to_vec();
            let first = rest.remove(first);
            permutations(&rest).into_iter().map(move |rest| [vec![first.clone()], rest].concat())
        })
        .collect()
}

#[test]
fn every_order_and_every_division_leads_to_the_same_latest_event() {
    let events =
        [event("a", Some(1), None), event("b", Some(2), Some(1)), event("c", Some(2), Some(2)), event("d", None, None)];
    let expected = EntityPosition::of(&events[3]).unwrap();
    for order in permutations(&events) {
        for split in 0..=order.len() {
            let (first, rest) = order.split_at(split);
            let begun = fold(None, first).next;
            let end = fold(begun.as_ref(), rest).next.or(begun).unwrap();
            assert_eq!(end.latest.last(), Some(&expected));
            // A repetition changes nothing.
            let again = fold(Some(&end), &order);
            assert_eq!(again.next, None);
            assert!(again.dispositions.iter().all(|one| *one != Disposition::Applied));
        }
    }
}

#[test]
fn older_event_is_stale_and_not_announced() {
    let (new, old) = (event("new", Some(2), None), event("old", Some(1), None));
    let (entity, announced, dispositions) = folded(&[new.clone(), old.clone(), new.clone(), old.clone()]);
    assert_eq!(announced, ["generic:new"]);
    let [applied, stale, duplicate, again] = dispositions.try_into().unwrap();
    assert_eq!((applied, stale, duplicate, again), {
        (Disposition::Applied, Disposition::Stale, Disposition::Duplicate, Disposition::Stale)
    });
    let entity = entity.unwrap();
    let of = |event: &ProviderEvent| entity.fate(&EntityPosition::of(event).unwrap());
    let folded = |disposition| EntityFate::Folded(Some(disposition));
    assert_eq!((of(&new), of(&old)), (folded(Disposition::Applied), folded(Disposition::Stale)));
    assert_eq!(of(&event("newer", Some(3), None)), EntityFate::NotFolded);
}

#[test]
fn events_of_one_time_are_all_announced() {
    let events = [event("b", Some(1), None), event("a", Some(1), None), event("c", Some(1), None)];
    for order in permutations(&events) {
        let (_, mut announced, _) = folded(&order);
        announced.sort();
        assert_eq!(announced, ["generic:a", "generic:b", "generic:c"]);
    }
    // The counter decides where both have one.
    let (_, announced, _) = folded(&[event("b", Some(1), Some(2)), event("a", Some(1), Some(1))]);
    assert_eq!(announced, ["generic:b"]);
}

#[test]
fn time_in_the_future_does_not_make_later_events_stale() {
    let wrong = event("wrong", Some(1_000_000), None);
    let mut later = event("later", Some(401), None);
    later.received_at = Timestamp::from_millis(401 * SECOND);
    let (_, announced, _) = folded(&[wrong, later]);
    assert_eq!(announced, ["generic:wrong", "generic:later"]);
}

#[test]
fn row_remembers_the_latest_events() {
    let count = ENTITY_EVENTS_MAX + 3;
    let events: Vec<ProviderEvent> =
        (0..count).map(|at| event(&format!("{at:02}"), i64::try_from(at).ok(), None)).collect();
    let (entity, announced, _) = folded(&events);
    let entity = entity.unwrap();
    assert_eq!((entity.latest.len(), announced.len(), entity.version), (ENTITY_EVENTS_MAX, count, count as u64));
    let of = |event: &ProviderEvent| entity.fate(&EntityPosition::of(event).unwrap());
    // It does not remember whether the first was applied or stale, but knows that nothing is left to do.
    let applied = EntityFate::Folded(Some(Disposition::Applied));
    assert_eq!((of(&events[0]), of(&events[count - 1])), (EntityFate::Folded(None), applied));
    assert!(events.iter().all(|event| entity.includes(&EntityPosition::of(event).unwrap())));
    // A batch is announced whole.
    let batch = fold(None, &events).next.unwrap();
    assert_eq!((batch.announced.len(), batch.latest.len()), (count, count));
}

#[test]
fn row_remembers_every_event_of_the_latest_time_up_to_a_limit() {
    let tied = |count: usize| -> Vec<ProviderEvent> {
        (0..count).map(|index| event(&format!("{index:03}"), Some(1), None)).collect()
    };
    let included = |entity: &Entity, event: &ProviderEvent| entity.includes(&EntityPosition::of(event).unwrap());
    let mut events = tied(ENTITY_TIED_MAX);
    // The ids come in no order.
    events.rotate_left(ENTITY_TIED_MAX / 3);
    let (entity, announced, _) = folded(&events);
    let entity = entity.unwrap();
    assert_eq!((entity.latest.len(), announced.len()), (ENTITY_TIED_MAX, ENTITY_TIED_MAX));
    assert!(events.iter().all(|event| included(&entity, event)));
    // None is announced twice.
    assert_eq!(fold(Some(&entity), &events).next, None);
    // One fewer leaves room to tell whether one was folded.
    let (fewer, ..) = folded(&events[1..]);
    assert!(!included(&fewer.unwrap(), &events[0]));
    // A further one counts as folded for repairs, and is announced if it arrives.
    let further = event("further", Some(1), None);
    assert_eq!(entity.fate(&EntityPosition::of(&further).unwrap()), EntityFate::Folded(None));
    let next = fold(Some(&entity), &[further]).next.unwrap();
    assert_eq!((next.latest.len(), next.announced.len()), (ENTITY_TIED_MAX, 1));
    // An event of a later time does not.
    assert!(!included(&next, &event("later", Some(2), None)));
    // With the next time, the row becomes as small as any other.
    let later = fold(Some(&next), &[event("later", Some(2), None)]).next.unwrap();
    assert_eq!(later.latest.len(), ENTITY_EVENTS_MAX);
    // Counters order events of one time, so these need no more memory.
    let counted: Vec<ProviderEvent> = (1..50).map(|index| event("c", Some(1), Some(index))).collect();
    assert_eq!(folded(&counted).0.unwrap().latest.len(), ENTITY_EVENTS_MAX);
}

#[test]
fn forgotten_entity_keeps_its_order_and_loses_its_data() {
    let data_of = |entity: &Entity| entity.announced.iter().map(|event| event.report.data.len()).sum::<usize>();
    let now = Timestamp::from_millis(500 * SECOND);
    let events = [event("a", Some(1), None), event("b", Some(2), None)];
    let before = fold(None, &events).next.unwrap();
    assert_eq!(data_of(&before), 2);
    let forgotten = before.forget(now);
    assert_eq!((data_of(&forgotten), forgotten.forgotten_at, forgotten.version), (0, Some(now), before.version + 1));
    assert_eq!((&forgotten.latest, forgotten.outbox_start), (&before.latest, before.outbox_start));
    // A late event does not bring the data back.
    let late = fold(Some(&forgotten), &[event("late", Some(3), None)]).next.unwrap();
    assert_eq!((data_of(&late), late.announced.len(), late.forgotten_at), (0, 1, Some(now)));
    // A row that was restored from a backup, or was lost, is forgotten again by the erased events.
    let erased = events.clone().map(|event| event.forgotten(now));
    let again = fold(Some(&before), &erased).next.unwrap();
    assert_eq!((data_of(&again), again.forgotten_at, again.outbox_start), (0, Some(now), before.outbox_start));
    assert_eq!(fold(Some(&again), &erased).next, None);
    assert_eq!(fold(None, &erased).next.unwrap().forgotten_at, Some(now));
}

#[test]
fn one_event_is_erased_without_forgetting_its_entity() {
    let events = [event("a", Some(1), None), event("b", Some(2), None)];
    let before = fold(None, &events).next.unwrap();
    let ids = BTreeSet::from([events[0].event_id.clone()]);
    let after = before.erase_events(&ids).unwrap();
    let data = |entity: &Entity| entity.announced.iter().map(|event| event.report.data.len()).collect::<Vec<_>>();
    assert_eq!((data(&after), after.forgotten_at, after.outbox_start), (vec![0, 1], None, before.outbox_start));
    assert_eq!(after.erase_events(&ids), None);
    // The erased event does the same to a row that was restored.
    let erased = events[0].clone().without_person();
    assert_eq!(fold(Some(&before), &[erased]).next, Some(after));
}

#[test]
fn debug_form_of_an_event_hides_its_data() {
    let mut event = event("a", Some(1), None);
    event.entity.as_mut().unwrap().data.insert("name".to_owned(), Scalar::Text("Jane".to_owned()));
    let shown = format!("{event:?} {:?}", WebhookReceived::of_event(&event));
    assert!(!shown.contains("Jane") && shown.contains("hidden"), "{shown}");
}

#[test]
fn domain_event_repeats_what_the_webhook_says() {
    let (entity, ..) = folded(&[event("a", Some(1), None)]);
    let [published] = <[WebhookReceived; 1]>::try_from(entity.unwrap().domain_events()).unwrap();
    assert_eq!(
        serde_json::to_value(published).unwrap(),
        serde_json::json!({
            "schema_version": 1, "id": "generic:a/received", "type": "webhook.received", "provider": "generic",
            "event_id": "generic:a", "webhook_type": "payment.changed", "entity_id": "pay_1", "sequence": null, "data": {"amount": 5},
            "trace_id": "trace", "occurred_at": "1970-01-01T00:00:01.000Z", "received_at": "1970-01-01T00:01:40.000Z",
        })
    );
}
