use super::*;

const SECOND: u64 = 1_000;
const TIMEOUT: u64 = 30 * SECOND;
const RETENTION: u64 = 3_600 * SECOND;

struct World {
    queue: Queue,
    dead: Vec<Message>,
    next: u64,
}

fn world(max_receive_count: Option<u32>) -> World {
    let redrive_policy = max_receive_count
        .map(|max_receive_count| RedrivePolicy { dead_letter_queue: "dlq.fifo".to_owned(), max_receive_count });
    let settings = QueueSettings {
        name: "q.fifo".to_owned(),
        fifo: true,
        visibility_timeout_ms: TIMEOUT,
        retention_ms: RETENTION,
        redrive_policy,
    };
    World { queue: Queue::new(settings), dead: Vec::new(), next: 1 }
}

fn message(group: &str, body: &str) -> NewMessage {
    NewMessage {
        body: body.to_owned(),
        group: Some(group.to_owned()),
        deduplication_id: Some(body.to_owned()),
        ..Default::default()
    }
}

impl World {
    fn send(&mut self, now: u64, new: NewMessage) -> Result<SendOutcome, SendError> {
        self.next += 1;
        self.queue.send(now, self.next, new)
    }

    /// Sends messages at time 0. The first letter of a body is its group.
    fn send_all(&mut self, bodies: &[&str]) {
        for body in bodies {
            self.send(0, message(&body[..1], body)).unwrap();
        }
    }

    fn receive(&mut self, now: u64, max: usize) -> Vec<ReceivedMessage> {
        let outcome = self.queue.receive(now, max, None);
        self.dead.extend(outcome.dead_letters);
        outcome.messages
    }

    fn bodies(&mut self, now: u64, max: usize) -> Vec<String> {
        self.receive(now, max).into_iter().map(|received| received.message.body).collect()
    }
}

#[test]
fn group_is_received_in_the_order_of_sending() {
    let mut world = world(None);
    world.send_all(&["a1", "b1", "a2", "a3"]);

    assert_eq!(world.bodies(0, 10), ["a1", "a2", "a3", "b1"]);
}

#[test]
fn one_receive_may_return_several_messages_of_a_group() {
    let mut world = world(None);
    world.send_all(&["a1", "a2", "a3"]);

    assert_eq!(world.bodies(0, 2), ["a1", "a2"]);
}

#[test]
fn message_that_was_received_more_than_three_times_has_no_age() {
    let mut world = world(None);
    world.send(0, message("a", "a1")).unwrap();
    world.send(SECOND, message("a", "a2")).unwrap();
    for receive in 0..3 {
        assert_eq!(world.bodies(receive * TIMEOUT, 1), ["a1"]);
        assert_eq!(world.queue.oldest_sent_at(), Some(0));
    }
    assert_eq!(world.bodies(3 * TIMEOUT, 1), ["a1"]);
    assert_eq!(world.queue.oldest_sent_at(), Some(SECOND), "the next message that counts");
}

#[test]
fn group_with_a_message_in_flight_is_blocked() {
    let mut world = world(None);
    world.send_all(&["a1", "a2", "b1"]);

    let first = world.receive(0, 1);
    assert_eq!(world.bodies(0, 10), ["b1"]);
    world.send_all(&["a3"]);
    assert_eq!(world.bodies(0, 10), [""; 0]);

    world.queue.delete(0, &first[0].receipt_handle).unwrap();
    assert_eq!(world.bodies(0, 10), ["a2", "a3"]);
}

#[test]
fn group_stays_blocked_until_its_last_message_in_flight_is_done() {
    let mut world = world(None);
    world.send_all(&["a1", "a2"]);
    let received = world.receive(0, 10);

    world.queue.change_visibility(0, &received[0].receipt_handle, 0).unwrap();
    assert_eq!(world.bodies(0, 10), [""; 0]);
    world.queue.delete(0, &received[1].receipt_handle).unwrap();
    assert_eq!(world.bodies(0, 10), ["a1"]);
}

#[test]
fn message_whose_timeout_ends_is_back_in_its_place() {
    let mut world = world(None);
    world.send_all(&["a1", "a2"]);
    world.receive(0, 1);

    assert_eq!(world.bodies(TIMEOUT - 1, 10), [""; 0]);
    assert_eq!(world.bodies(TIMEOUT, 10), ["a1", "a2"]);
}

#[test]
fn receive_count_rises_with_every_receive() {
    let mut world = world(None);
    world.send_all(&["a1"]);

    for count in 1..=3 {
        let now = u64::from(count) * TIMEOUT;
        let received = world.receive(now, 1);
        assert_eq!(received[0].message.receive_count, count);
        assert_eq!(received[0].message.first_received_at_ms, Some(TIMEOUT));
    }
}

#[test]
fn visibility_zero_makes_visible_at_once() {
    let mut world = world(None);
    world.send_all(&["a1"]);
    let received = world.receive(0, 1);

    world.queue.change_visibility(5, &received[0].receipt_handle, 0).unwrap();
    assert_eq!(world.queue.next_visible_at(5), Some(5));
    assert_eq!(world.bodies(5, 1), ["a1"]);
}

#[test]
fn visibility_can_be_extended_from_now() {
    let mut world = world(None);
    world.send_all(&["a1"]);
    let received = world.receive(0, 1);

    world.queue.change_visibility(10 * SECOND, &received[0].receipt_handle, 900 * SECOND).unwrap();
    assert_eq!(world.queue.next_visible_at(TIMEOUT), Some(910 * SECOND));
    assert_eq!(world.bodies(910 * SECOND - 1, 1), [""; 0]);
    assert_eq!(world.bodies(910 * SECOND, 1), ["a1"]);
}

#[test]
fn visibility_of_a_message_not_in_flight_cannot_change() {
    let mut world = world(None);
    world.send_all(&["a1"]);
    let first = world.receive(0, 1);

    let queue = &mut world.queue;
    let too_long = VISIBILITY_TIMEOUT_MS_MAX + 1;
    assert_eq!(queue.change_visibility(0, &first[0].receipt_handle, too_long), Err(ReceiptHandleError::InvalidTimeout));
    assert_eq!(queue.change_visibility(TIMEOUT, &first[0].receipt_handle, 5), Err(ReceiptHandleError::NotInFlight));
    queue.receive(TIMEOUT, 1, None);
    assert_eq!(queue.change_visibility(TIMEOUT, &first[0].receipt_handle, 5), Err(ReceiptHandleError::NotInFlight));
    assert_eq!(queue.change_visibility(0, "nonsense", 5), Err(ReceiptHandleError::Invalid));
}

#[test]
fn handle_of_an_earlier_receive_deletes_nothing() {
    let mut world = world(None);
    world.send_all(&["a1"]);
    let first = world.receive(0, 1);
    let second = world.receive(TIMEOUT, 1);

    assert_eq!(world.queue.delete(TIMEOUT, &first[0].receipt_handle), Ok(None));
    assert_eq!(world.queue.depth(TIMEOUT).in_flight, 1);
    assert!(world.queue.delete(TIMEOUT, &second[0].receipt_handle).unwrap().is_some());
    assert_eq!(world.queue.delete(TIMEOUT, &second[0].receipt_handle), Ok(None));
    assert_eq!(world.queue.depth(TIMEOUT), Depth::default());
}

#[test]
fn expired_handle_is_refused_by_a_fifo_queue() {
    let mut world = world(None);
    world.send_all(&["a1"]);
    let received = world.receive(0, 1);

    assert_eq!(world.queue.delete(TIMEOUT, &received[0].receipt_handle), Err(ReceiptHandleError::Expired));
    assert_eq!(world.bodies(TIMEOUT, 1), ["a1"]);
}

#[test]
fn handle_of_another_queue_is_invalid() {
    let mut world = world(None);
    assert_eq!(world.queue.delete(0, "other.fifo/1/1"), Err(ReceiptHandleError::Invalid));
}

#[test]
fn duplicate_is_answered_like_the_first_even_after_delete() {
    let mut world = world(None);
    let Ok(SendOutcome::Queued(first)) = world.send(0, message("a", "x")) else { panic!("not queued") };
    let received = world.receive(0, 1);
    world.queue.delete(0, &received[0].receipt_handle).unwrap();

    let again = world.send(DEDUPLICATION_WINDOW_MS - 1, message("a", "x")).unwrap();
    assert_eq!(again, SendOutcome::Duplicate { number: first.number, sequence: first.sequence });
    assert_eq!(world.bodies(DEDUPLICATION_WINDOW_MS - 1, 10), [""; 0]);
}

#[test]
fn deduplication_ends_five_minutes_after_the_first_send() {
    let mut world = world(None);
    world.send(0, message("a", "x")).unwrap();
    world.send(DEDUPLICATION_WINDOW_MS - 1, message("a", "x")).unwrap();
    let later = world.send(DEDUPLICATION_WINDOW_MS, message("a", "x")).unwrap();

    assert!(matches!(later, SendOutcome::Queued(_)), "{later:?}");
}

#[test]
fn deduplication_is_per_group() {
    let mut world = world(None);
    world.send(0, message("a", "x")).unwrap();
    let other = world.send(0, message("b", "x")).unwrap();

    assert!(matches!(other, SendOutcome::Queued(_)), "{other:?}");
}

#[test]
fn group_and_deduplication_id_are_required() {
    let mut world = world(None);
    let without_group = NewMessage { group: None, ..message("a", "x") };
    let without_id = NewMessage { deduplication_id: None, ..message("a", "x") };

    assert_eq!(world.send(0, without_group), Err(SendError::MissingGroup));
    assert_eq!(world.send(0, without_id), Err(SendError::MissingDeduplicationId));
}

#[test]
fn ids_are_at_most_128_graphic_ascii_characters() {
    let longest = "!~".repeat(64);
    let mut world = world(None);
    world.send(0, message(&longest, "x")).unwrap();

    for bad in ["", "a b", "é", &format!("{longest}x")] {
        assert_eq!(world.send(0, message(bad, "x")), Err(SendError::InvalidGroup), "{bad}");
        let new = NewMessage { deduplication_id: Some(bad.to_owned()), ..message("a", "x") };
        assert_eq!(world.send(0, new), Err(SendError::InvalidDeduplicationId), "{bad}");
    }
}

#[test]
fn body_that_xml_cannot_carry_is_rejected() {
    let mut world = world(None);
    world.send(0, message("a", "tab\tline\ncarriage\rümlaut 🎉")).unwrap_err();
    let body = "tab\tline\ncarriage\rümlaut 🎉".to_owned();
    world.send(0, NewMessage { body, ..message("a", "x") }).unwrap();

    for bad in ["\u{0}", "\u{b}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
        let new = NewMessage { body: bad.to_owned(), ..message("a", "y") };
        assert_eq!(world.send(0, new), Err(SendError::InvalidCharacters), "{bad:?}");
    }
}

#[test]
fn message_has_at_most_one_mebibyte() {
    let mut world = world(None);
    let largest = NewMessage { body: "x".repeat(MESSAGE_BYTES_MAX), ..message("a", "x") };
    let larger = NewMessage { body: "x".repeat(MESSAGE_BYTES_MAX + 1), ..message("a", "y") };
    let empty = NewMessage { body: String::new(), ..message("a", "z") };

    world.send(0, largest).unwrap();
    assert_eq!(world.send(0, larger), Err(SendError::TooLarge));
    assert_eq!(world.send(0, empty), Err(SendError::EmptyBody));
}

#[test]
fn message_received_often_enough_is_dead_and_its_group_goes_on() {
    let mut world = world(Some(2));
    world.send_all(&["a1", "a2"]);
    for now in [0, TIMEOUT] {
        assert_eq!(world.receive(now, 1)[0].message.body, "a1");
    }

    assert_eq!(world.bodies(2 * TIMEOUT, 1), ["a2"]);
    let dead: Vec<(&str, u32)> = world.dead.iter().map(|m| (m.body.as_str(), m.receive_count)).collect();
    assert_eq!(dead, [("a1", 2)]);
}

#[test]
fn followers_received_with_a_poison_message_die_with_it_in_order() {
    let mut world = world(Some(1));
    world.send_all(&["a1", "a2", "b1"]);
    world.bodies(0, 2);

    assert_eq!(world.bodies(TIMEOUT, 10), ["b1"]);
    let dead: Vec<&str> = world.dead.iter().map(|message| message.body.as_str()).collect();
    assert_eq!(dead, ["a1", "a2"]);
}

#[test]
fn depth_tells_visible_from_in_flight() {
    let mut world = world(None);
    world.send_all(&["a1", "a2", "b1"]);
    world.receive(0, 1);

    assert_eq!(world.queue.depth(0), Depth { visible: 2, in_flight: 1 });
    assert_eq!(world.queue.depth(TIMEOUT), Depth { visible: 3, in_flight: 0 });
}

#[test]
fn purge_removes_what_is_in_flight_too() {
    let mut world = world(None);
    world.send_all(&["a1", "b1"]);
    let received = world.receive(0, 1);

    assert_eq!(world.queue.purge().len(), 2);
    assert_eq!(world.queue.depth(0), Depth::default());
    assert_eq!(world.queue.next_visible_at(0), None);
    assert_eq!(world.queue.delete(0, &received[0].receipt_handle), Ok(None));
}

#[test]
fn receive_with_timeout_zero_leaves_the_message_visible() {
    let mut world = world(None);
    world.send_all(&["a1"]);
    world.queue.receive(0, 1, Some(0));

    assert_eq!(world.bodies(0, 1), ["a1"]);
}

#[test]
fn standard_queue_blocks_nothing() {
    let settings = QueueSettings {
        name: "q".to_owned(),
        fifo: false,
        visibility_timeout_ms: TIMEOUT,
        retention_ms: RETENTION,
        redrive_policy: None,
    };
    let mut queue = Queue::new(settings);
    for number in 1..=2 {
        queue.send(0, number, message("a", "x")).unwrap();
    }

    let first = queue.receive(0, 1, None).messages;
    let second = queue.receive(0, 1, None).messages;
    assert_ne!(first[0].message.number, second[0].message.number);
    assert!(queue.delete(TIMEOUT, &first[0].receipt_handle).unwrap().is_some(), "an expired handle still deletes");
}

#[test]
fn withdrawn_message_can_be_sent_again() {
    let mut world = world(None);
    let Ok(SendOutcome::Queued(first)) = world.send(0, message("a", "x")) else { panic!("not queued") };
    world.queue.undo_send(&first);

    assert_eq!(world.bodies(0, 10), [""; 0]);
    assert!(matches!(world.send(0, message("a", "x")), Ok(SendOutcome::Queued(_))));
}

#[test]
fn restored_message_still_deduplicates() {
    let mut world = world(None);
    let Ok(SendOutcome::Queued(first)) = world.send(0, message("a", "x")) else { panic!("not queued") };
    let mut queue = Queue::new(world.queue.settings().clone());
    queue.reload(first);

    assert!(matches!(queue.send(10, 99, message("a", "x")), Ok(SendOutcome::Duplicate { .. })));
    assert!(matches!(queue.send(DEDUPLICATION_WINDOW_MS, 99, message("a", "x")), Ok(SendOutcome::Queued(_))));
}

/// Performs random operations, and checks each receive against a naive statement of the rules.
#[test]
fn invariant_a_group_is_never_received_twice_at_once_nor_out_of_order() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut world = world(Some(5));
        let mut now = 0;
        let mut flying: BTreeMap<u64, (ReceivedMessage, u64)> = BTreeMap::new();
        for step in 0..300_u64 {
            now += random.u64(0..10 * SECOND);
            flying.retain(|_, (_, until)| *until > now);
            match random.u32(0..5) {
                0 | 1 => {
                    let group = ["a", "b", "c"][random.usize(0..3)];
                    world.send(now, message(group, &step.to_string())).unwrap();
                }
                2 => {
                    let max = random.usize(1..5);
                    for received in world.receive(now, max) {
                        let group = &received.message.group;
                        let earlier = flying
                            .values()
                            .find(|(other, until)| other.message.group == *group && *until != now + TIMEOUT);
                        assert!(earlier.is_none(), "seed {seed}: {received:?} beside {earlier:?}");
                        let before = world.queue.messages().find(|other| other.group == *group).unwrap();
                        let first = flying.values().filter(|(other, _)| other.message.group == *group).count();
                        assert!(first > 0 || before.sequence == received.message.sequence, "seed {seed}");
                        flying.insert(received.message.sequence, (received, now + TIMEOUT));
                    }
                }
                3 => {
                    if let Some(sequence) = flying.keys().next().copied() {
                        let (received, _) = flying.remove(&sequence).unwrap();
                        assert!(world.queue.delete(now, &received.receipt_handle).unwrap().is_some());
                    }
                }
                _ => {
                    if let Some((received, until)) = flying.values_mut().next() {
                        let timeout = random.u64(1..60) * SECOND + 1;
                        world.queue.change_visibility(now, &received.receipt_handle, timeout).unwrap();
                        *until = now + timeout;
                    }
                }
            }
            let depth = world.queue.depth(now);
            assert_eq!(depth.in_flight, flying.len(), "seed {seed} step {step}");
        }
    }
}
