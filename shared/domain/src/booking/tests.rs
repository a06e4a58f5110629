use super::*;
use crate::booking_report::BookingRule;
use crate::call::Disposition;
use crate::entity::{Entity, EntityFate, fold_entity};
use crate::entity_report::EntityReport;
use crate::event::{EventId, Origin};
use crate::number::PhoneNumber;
use crate::plan::RetryPolicy;
use crate::provider::Provider;
use crate::window::CallingWindow;

const KEY: &str = "entity:generic:b1";
const DEFAULTS: CallDefaults = CallDefaults {
    retry: RetryPolicy { attempts_max: 3, delay_seconds: 60, delay_max_seconds: 600, voicemail: false, unheard: false },
    window: None,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

/// Event of the booking at this second. `starts_at` is `None` if the event ends the booking.
fn event(id: u32, second: i64, starts_at: Option<i64>) -> ProviderEvent {
    let rule = BookingRule {
        providers: vec![Provider::Retell],
        from: PhoneNumber::new("+14155550100"),
        before_minutes: 60,
        window: None,
    };
    let booked = |starts_at| BookingReport::Booked(Booked { starts_at: Some(at(starts_at)), replaces: None, rule });
    let (event_id, origin) = (EventId::new(format!("generic:{id}")), Origin::Provider(Provider::Generic));
    ProviderEvent {
        to: Some(PhoneNumber::new("+14155550123")),
        entity: Some(EntityReport {
            id: Some("b1".to_owned()),
            occurred_at: Some(at(second)),
            sequence: None,
            data: BTreeMap::new(),
        }),
        booking: Some(Box::new(starts_at.map_or(BookingReport::CANCELED, booked))),
        ..ProviderEvent::new(event_id, origin, "booking", CallId::new(KEY), at(1_000))
    }
}

/// The row of a booking and its calls. A call is live, or it was called off.
#[derive(Default)]
struct Model {
    entity: Option<Entity>,
    live: BTreeSet<CallId>,
    created: BTreeSet<CallId>,
}

impl Model {
    /// Folds events. If the consumer does not die after the fold, the calls agree with the row.
    fn fold(&mut self, events: &[ProviderEvent], dies: bool) {
        let next = fold_entity(self.entity.as_ref(), &CallId::new(KEY), events).next;
        self.entity = next.or(self.entity.take());
        let Some(entity) = self.entity.as_mut().filter(|_| !dies) else { return };
        let Some(booking) = &mut entity.booking else { return };
        self.live.retain(|live| !booking.superseded.contains(live));
        self.live.extend(booking.call_id.clone());
        self.created.extend(booking.call_id.clone());
        *booking = booking.agreed(BTreeSet::new());
    }

    fn state(&self) -> Booking {
        self.entity.as_ref().and_then(|entity| entity.booking.clone()).expect("an event was folded")
    }
}

fn id_of(event: &ProviderEvent) -> CallId {
    event.booked_call_id().expect("booked")
}

mod random {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(switchhook_random::config(1_000, None))]

        // Few times and few starts, so that events collide in time, and a booking comes back to a start.
        #[test]
        fn calls_of_a_booking_are_a_function_of_the_set_of_its_events(
            events in vec((0..4_i64, prop_oneof![Just(None), (0..3_i64).prop_map(|start| Some(100_000 + start))]), 1..7),
            deliveries in vec((any::<prop::sample::Index>(), any::<bool>()), 0..12),
        ) {
            let events: Vec<ProviderEvent> =
                (0..).zip(events).map(|(id, (second, starts_at))| event(id, second, starts_at)).collect();
            let mut whole = Model::default();
            whole.fold(&events, false);
            let mut other = Model::default();
            for (index, dies) in deliveries {
                other.fold(std::slice::from_ref(index.get(&events)), dies);
            }
            // Whatever was delivered before, and wherever the consumer died: in the end, all events have arrived.
            for event in events.iter().rev() {
                other.fold(std::slice::from_ref(event), false);
            }
            prop_assert_eq!(other.state(), whole.state());
            prop_assert_eq!(&other.live, &whole.live);
            let latest = events.iter().max_by_key(|event| {
                let position = EntityPosition::of(event).expect("an entity");
                (position.at, event.booking.as_deref().is_some_and(BookingReport::is_canceled), event.event_id.clone())
            });
            let expected: BTreeSet<CallId> = latest.and_then(ProviderEvent::booked_call_id).into_iter().collect();
            prop_assert_eq!(&whole.live, &expected);
        }
    }
}

#[test]
fn booking_that_comes_back_to_a_start_has_the_same_call() {
    let (first, second, third) = (event(1, 1, Some(100)), event(2, 2, Some(200)), event(3, 3, Some(100)));
    assert_eq!(id_of(&first), id_of(&third));
    let mut model = Model::default();
    for event in [first.clone(), second.clone(), third.clone()] {
        model.fold(&[event], false);
    }
    assert_eq!((model.live, model.created.len()), (BTreeSet::from([id_of(&first)]), 2));
    let other_number = ProviderEvent { to: Some(PhoneNumber::new("+14155550199")), ..first.clone() };
    assert_ne!(id_of(&first), id_of(&other_number));
    let spelled = ProviderEvent { to: Some(PhoneNumber::new("+1 415 555 0123")), ..first.clone() };
    assert_eq!(id_of(&first), id_of(&spelled));
}

/// Until then, an operator sees that the consumer is not done with it.
#[test]
fn event_that_decides_a_booking_is_done_once_the_calls_agree() {
    let (first, second) = (event(1, 1, Some(100)), event(2, 2, Some(200)));
    let mut model = Model::default();
    let fate = |model: &Model, event: &ProviderEvent| {
        let position = EntityPosition::of(event).expect("an entity");
        model.entity.as_ref().map(|entity| entity.fate(&position))
    };
    let (done, open) = (
        Some(EntityFate::Folded(Some(Disposition::Applied))),
        Some(EntityFate::CallsDisagree(Some(Disposition::Applied))),
    );
    model.fold(std::slice::from_ref(&first), false);
    assert_eq!(fate(&model, &first), done);
    model.fold(std::slice::from_ref(&second), true);
    assert_eq!((fate(&model, &first), fate(&model, &second)), (done, open));
    model.fold(std::slice::from_ref(&second), false);
    assert_eq!(fate(&model, &second), done);
}

#[test]
fn events_of_other_kinds_change_no_booking() {
    let mut model = Model::default();
    model.fold(&[event(1, 1, Some(100))], false);
    let booking = model.state();
    let later = ProviderEvent { booking: None, ..event(2, 5, None) };
    model.fold(&[later], false);
    assert_eq!(model.state(), booking);
    // An end that arrives after a later event of another kind still counts, although nothing is announced.
    model.fold(&[event(3, 3, None)], false);
    let entity = model.entity.clone().expect("folded");
    assert!(model.state().is_canceled && model.live.is_empty());
    assert_eq!(entity.announced.iter().map(|event| event.event_id.as_str()).collect::<Vec<_>>(), ["generic:2"]);
    assert!(entity.includes_event(&event(3, 3, None)) && !entity.includes_event(&event(4, 4, Some(100))));
}

#[test]
fn row_whose_calls_do_not_agree_includes_none_of_its_events() {
    let mut model = Model::default();
    let booked = event(1, 1, Some(100));
    model.fold(std::slice::from_ref(&booked), true);
    assert!(!model.entity.as_ref().is_some_and(|entity| entity.includes_event(&booked)));
    model.fold(std::slice::from_ref(&booked), false);
    assert!(model.entity.as_ref().is_some_and(|entity| entity.includes_event(&booked)));
}

#[test]
fn call_is_due_before_the_start_and_never_after_it() {
    const STARTS: i64 = 1_000_000;
    let window = |text: &str| text.parse::<CallingWindow>().ok();
    let with = |window: Option<CallingWindow>| CallDefaults { window, ..DEFAULTS };
    let due = |defaults: &CallDefaults, now: i64| {
        let booked = event(1, 1, Some(STARTS)).booked_call(defaults, at(now)).expect("booked");
        booked.map(|call| (call.plan.due_at, call.plan.not_after)).map_err(NotScheduled::as_str)
    };
    let ends = Some(at(STARTS));
    assert_eq!(due(&DEFAULTS, 0), Ok((at(STARTS - 3_600), ends)));
    assert_eq!(due(&DEFAULTS, STARTS - 60), Ok((at(STARTS - 60), ends)));
    assert_eq!(due(&DEFAULTS, STARTS), Err("too_late"));
    // The appointment starts at 13:46:40 UTC.
    assert_eq!(due(&with(window("UTC 13:00-14:00")), 0), Ok((at(STARTS - 3_600), ends)));
    assert_eq!(due(&with(window("UTC 14:00-15:00")), 0), Err("too_late"));
    assert_eq!(due(&DEFAULTS, STARTS - 366 * 24 * 3_600), Err("too_far_ahead"));
    let refused = |event: ProviderEvent| event.booked_call(&DEFAULTS, at(0)).and_then(Result::err);
    let booked = || event(1, 1, Some(STARTS));
    assert_eq!(refused(ProviderEvent { to: None, ..booked() }), Some(NotScheduled::NoNumber));
    assert_eq!(refused(booked().forgotten(at(5))), Some(NotScheduled::Forgotten));
    let mut without_start = booked();
    if let Some(BookingReport::Booked(booked)) = without_start.booking.as_deref_mut() {
        booked.starts_at = None;
    }
    assert_eq!(refused(without_start), Some(NotScheduled::NoStart));
    assert!(event(1, 1, None).booked_call(&DEFAULTS, at(0)).is_none());
}
