//! Capacity units that a webhook about no call costs, with as much `data` as an entry can name.

use http::StatusCode;
use serde_json::{Map, Value, json};
use switchhook_tests::{KEY, World, options, text};

use super::{consume, request_counts, reset_counters};
use crate::configured::signed;

const MANY: &str = "x-many";
/// Limits of an entry, and of what Switchhook repeats of a text, in bytes.
const VALUES_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 32;
const TEXT_BYTES_MAX: usize = 256;

/// Makes the text with a number.
type Texts = fn(u64) -> String;

/// Entry with the largest `data`: names and values that cannot be longer.
fn entry() -> Value {
    let names = (0..VALUES_MAX).map(|number| format!("{number:0>NAME_BYTES_MAX$}"));
    let data: Map<String, Value> = names.enumerate().map(|(at, name)| (name, json!(format!("/values/{at}")))).collect();
    json!({
        "keys": [KEY],
        "signature": {"scheme": "hmac", "header": "x-signature", "timestamp_header": "x-time"},
        "events": {
            "event_id": "/id", "type": "/type", "time": "/created", "entity_id": "/thing", "data": data,
            "rules": [{"event": "received"}],
        },
    })
}

/// Text in which no part repeats, so that little of it can be compressed.
fn dense(seed: u64) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(LETTERS[(state >> 58) as usize])
    };
    (0..TEXT_BYTES_MAX).map(|_| letter()).collect()
}

/// Units of one event: written by ingress in the table and the index, read and written by the consumer.
async fn units(world: &World, number: u64, texts: Texts) -> [f64; 4] {
    let values: Vec<String> = (0..VALUES_MAX as u64).map(|at| texts(number * 100 + at)).collect();
    let body = json!({"id": format!("e{number}"), "type": "changed", "created": 1_767_225_600 + number, "thing": "t1",
        "values": values});
    reset_counters(world);
    let (code, answer) = world.send(signed(world, MANY, &entry(), &body)).await;
    assert_eq!((code, text(&answer["status"])), (StatusCode::OK, "accepted".to_owned()));
    assert_eq!(world.requests(), request_counts(&[("PutItem", 1), ("SendMessage", 1)]));
    let put = world.capacity()["PutItem"];
    consume(world).await;
    assert_eq!(world.requests(), request_counts(&[("GetItem", 1), ("PutItem", 1)]));
    let capacity = world.capacity();
    assert_eq!(capacity["PutItem"].index_write_units, 0.0);
    [put.write_units, put.index_write_units, capacity["GetItem"].read_units, capacity["PutItem"].write_units]
}

#[tokio::test(start_paused = true)]
async fn webhook_about_no_call_costs_units_by_the_size_of_its_data() {
    let words = |_| "confirmed by the guest on the phone, ".repeat(20);
    let short = |_| "paid".to_owned();
    let kinds: [(&str, Texts, [f64; 4]); 3] = [
        ("dense texts", dense, [7.0, 1.0, 2.0, 5.0]),
        ("words that repeat", words, [1.0, 1.0, 2.0, 5.0]),
        ("short texts", short, [1.0, 1.0, 1.0, 2.0]),
    ];
    for (kind, texts, most) in kinds {
        let world = World::with_options(options(&json!({MANY: entry()})));
        let mut all = Vec::new();
        // The row remembers ten events, so the first ones grow it.
        for number in 0..15 {
            all.push(units(&world, number, texts).await);
        }
        println!("{kind}: (inbox, its index, read by the consumer, its write) {all:?}");
        for of_one in &all {
            assert!(of_one.iter().zip(most).all(|(units, most)| *units <= most), "{kind}: {all:?}");
        }
    }
}
