//! The event bus, injected faults, virtual time and the data directory.

use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_eventbridge::types::PutEventsRequestEntry;
use switchhook_local::clock::{self, Clock};
use switchhook_local::connector::{Fault, RequestInfo, Service};
use switchhook_local::{EVENTS_QUEUE, Options, Services};

use crate::world::{TempDir, World, send, versioned_put, world};

#[tokio::test(start_paused = true)]
async fn events_reach_the_bus() {
    let world = world();
    let entry = |detail: &str| {
        let entry = PutEventsRequestEntry::builder().source("switchhook").detail_type("call.completed").detail(detail);
        entry.event_bus_name("calls").time(aws_sdk_eventbridge::primitives::DateTime::from_millis(1_500)).build()
    };
    let put = world.eventbridge.put_events().entries(entry("{\"n\":1}")).entries(entry("nonsense"));
    let answer = put.send().await.unwrap();

    assert_eq!(answer.failed_entry_count(), 1);
    assert_eq!(answer.entries()[1].error_code(), Some("MalformedDetail"));
    let events = world.services.bus().events_since(0);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((event.bus.as_str(), event.detail.as_str(), event.time_ms), ("calls", "{\"n\":1}", 1_500));
    assert_eq!(Some(event.id.as_str()), answer.entries()[0].event_id());
}

#[tokio::test(start_paused = true)]
async fn throttled_request_is_retried_by_the_client() {
    let world = world();
    world.fault_once(0, Fault::ErrorBefore { status: 400, code: "ProvisionedThroughputExceededException".to_owned() });
    versioned_put(&world).send().await.unwrap();

    assert_eq!(world.requests(Service::DynamoDb, "PutItem"), 2);
    assert_eq!(world.count("PutItem").requests, 1);
}

#[tokio::test(start_paused = true)]
async fn write_whose_answer_is_lost_is_applied_and_its_retry_refused() {
    for fault in [Fault::ResponseLost, Fault::ErrorAfter { status: 500, code: "InternalServerError".to_owned() }] {
        let world = world();
        world.fault_once(0, fault);
        let error = versioned_put(&world).send().await.unwrap_err().into_service_error();

        assert!(error.is_conditional_check_failed_exception(), "{error:?}");
        assert!(world.call_row("c1").await.is_some());
        assert_eq!(world.services.dynamodb().stream().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_never_arrives_is_retried_and_applied_once() {
    for fault in [Fault::NotSent, Fault::Timeout] {
        let world = world();
        world.fault_once(0, fault);
        versioned_put(&world).send().await.unwrap();
        assert_eq!(world.count("PutItem").requests, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn delay_passes_in_virtual_time() {
    for (fault, applied_at_once) in
        [(Fault::Delay(Duration::from_secs(7)), false), (Fault::ResponseDelay(Duration::from_secs(7)), true)]
    {
        let world = world();
        let started = tokio::time::Instant::now();
        world.fault_once(0, fault);
        let put = tokio::spawn(versioned_put(&world).send());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.services.dynamodb().stream().len() == 1, applied_at_once);
        put.await.unwrap().unwrap();
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }
}

#[test]
fn one_seed_is_one_run() {
    // Returns the times at which the requests of a throttled client arrive. They depend on the jitter of its retries.
    let arrivals = |seed: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            clock::seed(seed);
            let world = world();
            let clock = world.services.clock();
            let arrivals = Arc::new(Mutex::new(Vec::new()));
            let hook = {
                let arrivals = arrivals.clone();
                move |_: &RequestInfo<'_>| {
                    arrivals.lock().unwrap().push(clock.now_ms());
                    Some(Fault::ErrorBefore { status: 500, code: "InternalServerError".to_owned() })
                }
            };
            world.services.connector().set_fault_hook(Some(Arc::new(hook)));
            for _ in 0..3 {
                versioned_put(&world).send().await.unwrap_err();
            }
            arrivals.lock().unwrap().clone()
        })
    };

    assert_eq!(arrivals(1), arrivals(1));
    assert_ne!(arrivals(1), arrivals(2));
}

#[tokio::test(start_paused = true)]
async fn data_dir_keeps_everything_and_belongs_to_one_process() {
    let dir = TempDir::new("restart");
    let clock = Clock::starting_at(UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    let open = || Services::open(Options::new(clock).data_dir(&dir.0));
    let services = open().unwrap();
    assert!(open().is_err(), "in use");

    let config = services.sdk_config();
    let world = World {
        dynamodb: aws_sdk_dynamodb::Client::new(&config),
        sqs: aws_sdk_sqs::Client::new(&config),
        eventbridge: aws_sdk_eventbridge::Client::new(&config),
        services,
    };
    versioned_put(&world).send().await.unwrap();
    send(&world, "call-1", "e1").send().await.unwrap();
    let entry = PutEventsRequestEntry::builder().source("s").detail_type("t").detail("{}").build();
    world.eventbridge.put_events().entries(entry).send().await.unwrap();
    drop((world, config));

    let services = open().unwrap();
    assert_eq!(services.dynamodb().stream().len(), 1);
    assert_eq!(services.sqs().depth(EVENTS_QUEUE).unwrap().visible, 1);
    assert_eq!(services.bus().events_since(0).len(), 1);
}
