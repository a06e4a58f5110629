//! `switchhook simulate`: reckons what a stack needs and costs at a given traffic, and which limit it meets first.

mod page;
mod text;

use std::io::Write;
use std::ops::RangeInclusive;

use clap::Args;
use serde_json::json;
use switchhook_operate::scale::{
    Profile, RETELL, ReconcilerLimits, TWILIO, Traffic, WEBHOOKS_PER_DAY_MAX, bill, discovery_share, drift_share,
    parameter, partitions, pollers, refold_max, resources,
};
use switchhook_reconciler::limits;

use crate::error::CommandError;

const EXAMPLES: &str = "\
Examples:
  switchhook simulate
  switchhook simulate --events-per-day 5e6 --dialled-share 0.3
  switchhook simulate --events-per-day 1e8 --traffic twilio --json

It reckons from units that tests measure, and from the defaults of the template and of AWS. It reads no stack. Without options it
prints docs/scaling.md.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Simulate {
    /// Webhooks per day, one or more numbers from 1 to 1e12
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', default_value = "1e6,1e8,1e9", value_parser = webhooks, allow_negative_numbers = true)]
    events_per_day: Vec<f64>,
    /// Kind of webhooks: retell (three per call, 5 KB) or twilio (five per call, 0.6 KB)
    #[arg(long, value_name = "KIND", default_value = RETELL.name, value_parser = profile)]
    traffic: Profile,
    /// Load at the busiest time, as a multiple of the mean, from 1 to 86400
    #[arg(long, value_name = "NUMBER", default_value_t = Traffic::new(1.0).peak_factor, value_parser = peak_factor, allow_negative_numbers = true)]
    peak_factor: f64,
    /// Share of the calls that Switchhook dials, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Traffic::new(1.0).dialled_share, value_parser = share, allow_negative_numbers = true)]
    dialled_share: f64,
    /// Share of the calls whose ending no webhook reports, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = Traffic::new(1.0).silent_share, value_parser = share, allow_negative_numbers = true)]
    silent_share: f64,
    /// Days for which webhooks are stored, from 3 to 3650
    #[arg(long, value_name = "DAYS", default_value_t = parameter::INBOX_DAYS, value_parser = inbox_days, allow_negative_numbers = true)]
    inbox_days: f64,
    /// Days for which calls are stored, from 44 to 3650
    #[arg(long, value_name = "DAYS", default_value_t = parameter::CALL_DAYS, value_parser = call_days, allow_negative_numbers = true)]
    call_days: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Simulate {
    /// Returns true.
    pub(crate) fn run(&self, out: &mut impl Write) -> Result<bool, CommandError> {
        let sizes = self.sizes();
        if self.json {
            let sizes = sizes.iter().map(|traffic| {
                json!({
                    "traffic": traffic, "units": traffic.units(), "resources": resources(traffic, &reconciler_limits()),
                    "partitions": partitions(traffic), "pollers": pollers(traffic),
                    "drift_share": drift_share(traffic, &reconciler_limits()),
                    "discovery_share": discovery_share(traffic, &reconciler_limits()),
                    "refold_max": refold_max(traffic),
                    "bill": bill(traffic),
                })
            });
            writeln!(out, "{:#}", json!({"sizes": sizes.collect::<Vec<_>>()}))?;
        } else {
            out.write_all(page::page(&sizes, &reconciler_limits()).as_bytes())?;
        }
        Ok(true)
    }

    /// Returns the traffic of each size, the smallest first.
    fn sizes(&self) -> Vec<Traffic> {
        let mut sizes = self.events_per_day.clone();
        sizes.sort_by(f64::total_cmp);
        sizes.into_iter().map(|size| self.traffic(size)).collect()
    }

    fn traffic(&self, webhooks_per_day: f64) -> Traffic {
        Traffic {
            webhooks_per_day,
            profile: self.traffic,
            peak_factor: self.peak_factor,
            dialled_share: self.dialled_share,
            silent_share: self.silent_share,
            inbox_days: self.inbox_days,
            call_days: self.call_days,
        }
    }
}

/// Largest peak: the traffic of a whole day in one second.
const PEAK_FACTOR_MAX: f64 = 86_400.0;

#[expect(clippy::cast_precision_loss, reason = "the limits are far below 2^52")]
fn reconciler_limits() -> ReconcilerLimits {
    // Each period begins before the end of the one before, so a call is read in several.
    let discovery_periods = 1.0 + limits::DISCOVERY_OVERLAP.as_secs_f64() / limits::DISCOVERY_PERIOD.as_secs_f64();
    ReconcilerLimits {
        lookups: limits::REQUESTS_PER_MINUTE.into(),
        ending_lookups: limits::Urgency::Ending.ceiling().into(),
        drift_lookups: limits::Urgency::Drift.ceiling().into(),
        drift_lag_h: limits::DRIFT_LAG_MAX.as_secs_f64() / 3_600.0,
        sweep_s: limits::WORK_WINDOW.as_secs_f64(),
        sweep_calls_per_read: limits::SWEEP_CALLS_PER_READ as f64,
        sweep_reads_at_once: limits::SWEEP_READS_AT_ONCE as f64,
        sweep_page: limits::SWEEP_PAGE.into(),
        retry_s: limits::RUN_MAX.as_secs_f64(),
        retries_at_once: limits::RETRIES_AT_ONCE as f64,
        queue_depth_per_shard: limits::QUEUE_DEPTH_PER_SHARD as f64,
        discovery_pages: limits::DISCOVERY_PAGES_MAX.into(),
        discovery_periods,
        discovery_look_back_h: limits::DISCOVERY_LOOK_BACK_MAX.as_secs_f64() / 3_600.0,
    }
}

fn webhooks(text: &str) -> Result<f64, String> {
    within(1.0..=WEBHOOKS_PER_DAY_MAX, text)
}

fn peak_factor(text: &str) -> Result<f64, String> {
    within(1.0..=PEAK_FACTOR_MAX, text)
}

fn share(text: &str) -> Result<f64, String> {
    within(0.0..=1.0, text)
}

fn inbox_days(text: &str) -> Result<f64, String> {
    within(parameter::INBOX_DAYS_MIN..=parameter::DAYS_MAX, text)
}

fn call_days(text: &str) -> Result<f64, String> {
    within(parameter::CALL_DAYS_MIN..=parameter::DAYS_MAX, text)
}

fn within(span: RangeInclusive<f64>, text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| span.contains(number));
    number.ok_or_else(|| format!("not a number from {} to {}", span.start(), span.end()))
}

fn profile(text: &str) -> Result<Profile, String> {
    let known = [RETELL, TWILIO].into_iter().find(|profile| profile.name == text);
    known.ok_or_else(|| "not one of retell, twilio".to_owned())
}

#[cfg(test)]
mod tests {
    use switchhook_aws::shards::shards_of_marks;
    use switchhook_domain::Provider;
    use switchhook_operate::cost::{RECONCILER_MEMORY_GB, price};
    use switchhook_operate::scale::{
        CLAIM_CPU_S, Effect, QUEUE_S, Resource, discovered_calls_in_time, new_keys_writes_max, quota, recovery_h,
        sweep_reads_max,
    };
    use switchhook_providers::DialRates;

    use super::*;

    const SIZES: [f64; 3] = [1e6, 1e8, 1e9];
    /// Millions of webhooks a day, with the `IndexShards` that docs/deploy.md recommends for them.
    const RECOMMENDED_SHARDS: [(u32, u64); 4] = [(25, 4), (100, 32), (200, 88), (500, 99)];

    fn resource(traffic: &Traffic, name: &str) -> Resource {
        let mut all = resources(traffic, &reconciler_limits()).into_iter();
        all.find(|resource| resource.name == name).unwrap()
    }

    #[test]
    fn page_in_the_documentation_is_what_the_command_prints() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scaling.md");
        let printed = page::page(&SIZES.map(Traffic::new), &reconciler_limits());
        let stored = std::fs::read_to_string(path).unwrap();
        let differing = printed.lines().zip(stored.lines()).find(|(printed, stored)| printed != stored);
        assert!(printed == stored, "target/debug/switchhook simulate > docs/scaling.md renews the page: {differing:?}");
    }

    #[test]
    fn discovery_is_the_first_wall_of_short_lists() {
        let printed = page::page(&[Traffic::new(1e6)], &reconciler_limits());
        let pages = limits::DISCOVERY_PAGES_MAX;
        assert!(
            printed.contains(&format!("{pages} pages per minute × 60 × 10 calls per page / 4 periods")),
            "{printed}"
        );
        // Ten calls per page, for 60 minutes. Each call is read in four periods. A call has three webhooks, and the busiest hour three times the
        // mean.
        let calls = discovered_calls_in_time(&Traffic::new(1e6), &reconciler_limits());
        assert_eq!(calls, f64::from(pages * 10 * 60 / 4));
        let wall = "**First wall: calls per hour in one provider's list**, at 216,000 webhooks a day.";
        assert!(calls * 24.0 * 3.0 / 3.0 == 216_000.0 && printed.contains(wall), "{calls}: {printed}");
        assert!(printed.contains("It keeps up with 9,000 calls per hour"), "{printed}");
        // Twilio has 50 calls per page, and five webhooks per call.
        let lists =
            resource(&Traffic { profile: TWILIO, ..Traffic::new(1e6) }, "calls per hour in one provider's list");
        assert!(lists.webhooks_per_day_max.is_some_and(|wall| (wall - 5.0 * 216_000.0 * 5.0 / 3.0).abs() < 1e-3));
    }

    #[test]
    fn sentences_of_the_page_follow_from_the_traffic() {
        let page = |traffic: Traffic| page::page(&[traffic], &reconciler_limits());
        let (usual, even) = (page(Traffic::new(1e6)), page(Traffic { peak_factor: 1.0, ..Traffic::new(1e6) }));
        for (of_usual, of_even) in [
            ("a day's traffic in 8 hours", "a day's traffic in 24 hours"),
            // 2,400 messages a second, with a dial for each thirty webhooks.
            ("at 66.9 million webhooks a day", "at 201 million webhooks a day"),
            // The times and pages of refolds.
            ("busiest time of\n  12.4 million", "busiest time of\n  37.2 million"),
            ("enough up to 93.2 million", "enough up to 280 million"),
        ] {
            assert!(
                usual.contains(of_usual) && !even.contains(of_usual) && even.contains(of_even),
                "{of_even}: {even}"
            );
        }
        assert!(page(Traffic::new(1.0)).contains("## 1 webhook a day\n"));
        // Without dials and with long lists, webhooks meet the first wall.
        let long_lists = Profile { calls_per_page: 1e6, ..RETELL };
        let inbound = page(Traffic { dialled_share: 0.0, profile: long_lists, ..Traffic::new(1e6) });
        assert_eq!(inbound.matches("**First wall").count(), 1, "{inbound}");
        assert!(inbound.contains("**First wall, which webhooks meet: webhooks per second**"), "{inbound}");
    }

    #[test]
    fn sizes_are_sorted_so_that_the_middle_one_is_the_middle() {
        let simulate = Simulate {
            events_per_day: vec![1e9, 1e6, 1e8],
            traffic: RETELL,
            peak_factor: 3.0,
            dialled_share: 0.1,
            silent_share: 0.001,
            inbox_days: 30.0,
            call_days: 400.0,
            json: false,
        };
        let sizes: Vec<f64> = simulate.sizes().iter().map(|traffic| traffic.webhooks_per_day).collect();
        assert_eq!(sizes, SIZES);
    }

    #[test]
    fn sweep_costs_what_the_page_about_cost_says() {
        let limits = reconciler_limits();
        let seconds = 1e6 * limits.sweep_s / 60.0 / sweep_reads_max(1, &limits);
        let cents = 100.0 * seconds * RECONCILER_MEMORY_GB * price::LAMBDA_GB_S;
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cost.md")).unwrap();
        let sentence = format!("{cents:.2} cents per million");
        assert!(page.contains(&sentence), "docs/cost.md must say: {sentence}");
    }

    #[test]
    fn limit_of_by_attention_is_the_one_that_the_page_describes() {
        let printed = page::page(&[Traffic::new(1e6)], &reconciler_limits());
        assert!(printed.contains("With 4 shards S is 2, so m is 2."), "{printed}");
        // C(2, 2) / 4^1 is 25 %, and C(2, 3) is 0. Each partition takes 1,000 writes.
        let (keys, keys_together) = (2.0, 2.0);
        let limit =
            resource(&Traffic::new(1e6), "writes to `by_attention` per second, while no event can be folded").limit;
        assert_eq!(limit, keys * 1_000.0 / keys_together);
    }

    #[test]
    fn loads_are_those_of_a_calculation_by_hand() {
        // 86.4 million webhooks a day are 1,000 a second, about 333.3 calls. A tenth of the calls is dialled.
        let traffic = Traffic::new(86.4e6);
        let webhooks = resource(&traffic, "webhooks per second");
        assert_eq!((webhooks.mean, webhooks.peak, webhooks.limit), (1_000.0, 3_000.0, 1_000.0));
        assert_eq!((webhooks.share(), webhooks.is_exceeded()), (3.0, true));
        assert!(webhooks.webhooks_per_day_max.is_some_and(|wall| (wall - 28.8e6).abs() < 1e-3), "{webhooks:?}");
        assert_eq!(webhooks.effect, Effect::RefusesWebhooks);
        let dials = resource(&traffic, "dials per second, all through one account");
        assert!((dials.peak - 100.0).abs() < 1e-9 && dials.limit == 0.97, "{dials:?}");
        // With the largest rate, 194 dials a second are booked.
        let at_most = dials.webhooks_per_day_at_most.unwrap();
        assert!((at_most - 194.0 / 100.0 * 86.4e6).abs() < 1.0, "{at_most}");
        let dialers = resource(&traffic, "dialers at work");
        assert!((dialers.peak - 250.0 / 0.97).abs() < 1e-9 && dialers.limit == 30.0, "{dialers:?}");
        // The dialers' limit is met where the scheduler books no more for them, however high the rate is.
        let rates: DialRates = "retell=200".parse().unwrap();
        let booked = 1.0 / rates.interval(Provider::Retell, 30).unwrap().as_secs_f64();
        let met = dialers.webhooks_per_day_max.unwrap();
        assert!((met - booked / 100.0 * 86.4e6).abs() < 1.0, "{met}");
        let questions = resource(&traffic, "questions about silent calls per minute, all to one account");
        assert!((questions.mean - 20.0).abs() < 1e-9, "{questions:?}");
    }

    #[test]
    fn each_limit_is_used_up_at_its_wall_and_the_wall_is_the_same_at_every_size() {
        let shares = [0.0, 0.1, 1.0].map(|dialled_share| Traffic { dialled_share, ..Traffic::new(1.0) });
        for traffic in shares.into_iter().chain([Traffic { profile: TWILIO, ..Traffic::new(1.0) }]) {
            let of_size = |webhooks_per_day| Traffic { webhooks_per_day, ..traffic };
            for size in SIZES.map(of_size) {
                for Resource { name, webhooks_per_day_max, .. } in resources(&size, &reconciler_limits()) {
                    let Some(wall) = webhooks_per_day_max else { continue };
                    let share = |webhooks: f64| resource(&of_size(webhooks), name).share();
                    assert!((share(wall) - 1.0).abs() < 1e-6, "{name}: {} at {wall}: {size:?}", share(wall));
                    assert!([0.3, 0.6, 0.9, 0.999].iter().all(|part| share(part * wall) < 1.0), "{name}: {size:?}");
                    assert!((size.webhooks_per_day < wall) || resource(&size, name).is_exceeded(), "{name}: {size:?}");
                }
            }
        }
    }

    #[test]
    fn relay_of_a_full_stack_publishes_nearly_each_write_with_a_request_of_its_own() {
        for size in SIZES {
            let traffic = Traffic::new(size);
            let requests = resource(&traffic, "`PutEvents` requests per second").peak;
            let writes = traffic.webhooks() * traffic.peak_factor * traffic.units().relay_records;
            assert!(requests >= 0.9 * writes && requests <= writes, "{requests} of {writes}");
        }
    }

    #[test]
    fn limit_that_grows_faster_than_its_load_has_no_wall() {
        // A partition of the calls table takes 1,000 write units, those of 769 webhooks with 1,795 domain events. They need 3.6 invocations
        // of the relay at the same time, and have 4.
        let relay = resource(&Traffic::new(1e9), "concurrent invocations of the relay in a new stack");
        assert!(relay.webhooks_per_day_max.is_none() && relay.share() < 1.0, "{relay:?}");
    }

    #[test]
    fn no_number_of_shards_takes_the_writes_of_a_billion_webhooks_a_day() {
        let writes = resource(&Traffic::new(1e9), "writes to `by_received` per second");
        let at_most = writes.webhooks_per_day_at_most.unwrap();
        assert!(
            (6e8..1e9).contains(&at_most) && writes.limit_max.is_some_and(|limit| limit < writes.peak),
            "{writes:?}"
        );
    }

    #[test]
    fn keys_without_writes_may_share_a_partition_when_an_incident_begins() {
        // 1,000 notes a second are those of 27.9 million webhooks a day at the busiest time.
        let notes = resource(&Traffic::new(1e8), "writes to `by_attention` per second, while no event can be folded");
        assert!(notes.webhooks_per_day_max.is_some_and(|wall| (wall - 27_870_967.7).abs() < 0.1), "{notes:?}");
        // With all shards and 40 partitions, it takes those of ten times as many.
        let at_most = notes.webhooks_per_day_at_most.unwrap();
        assert!((2e8..3e8).contains(&at_most), "{at_most}");
    }

    #[test]
    fn failing_messages_are_in_flight_until_their_events_wait_in_the_inbox() {
        // At the busiest time 630 failing messages a second, each for 190.5 seconds, fill the queue.
        let in_flight =
            resource(&Traffic::new(1e8), "messages in flight, while a tenth of the events cannot be folded");
        let expected = 120_000.0 / 190.5 / 0.103_333_3 / 3.0 * 86_400.0;
        assert!(in_flight.webhooks_per_day_max.is_some_and(|wall| (wall - expected).abs() < 1_000.0), "{in_flight:?}");
        assert!(!in_flight.is_exceeded());
        assert_eq!(in_flight.effect, Effect::Delays);
    }

    #[test]
    fn failing_events_are_sent_again_ten_times_each() {
        // 86.4 million webhooks a day have 103.3 failing events a second. Two workers send 1,447 events a second each, for 36 seconds of a minute.
        let sent = resource(
            &Traffic::new(86.4e6),
            "events sent again per second, while a tenth of the events cannot be folded for hours",
        );
        assert!((sent.mean - 1_033.3).abs() < 0.1, "{sent:?}");
        assert!((sent.limit - 2.0 * 36.0 / 60.0 * 1024.0 / 1769.0 / 0.000_4).abs() < 0.1, "{sent:?}");
        assert_eq!(sent.limit_max, Some(4.0 * sent.limit));
    }

    #[test]
    fn messages_in_the_queue_follow_from_their_mean_time() {
        // 1,033 messages a second, each for 70 ms in the queue and 20 ms at the consumer.
        let messages = resource(&Traffic::new(86.4e6), "messages in the events queue");
        assert!((messages.mean - 93.0).abs() < 0.01, "{messages:?}");
        // A lognormal distribution with a median of 28 ms and a 99th percentile of 645 ms.
        let deviation = (645.0_f64 / 28.0).ln() / 2.326_35;
        let mean = 0.028 * (deviation * deviation / 2.0).exp();
        assert!((mean - QUEUE_S).abs() < 0.001, "{mean}");
    }

    #[test]
    fn recommended_shards_take_the_writes_of_their_traffic() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/deploy.md")).unwrap();
        for (millions, shards) in RECOMMENDED_SHARDS {
            assert!(page.contains(&format!("| {millions} million | {shards} | ")), "{millions}");
            let traffic = Traffic::new(f64::from(millions) * 1e6);
            let writes = resource(&traffic, "writes to `by_received` per second").peak;
            let share = writes / new_keys_writes_max(shards, partitions(&traffic).received);
            assert!(share <= 0.8, "{millions}: {share}");
        }
    }

    #[test]
    fn recommended_warm_units_take_the_notes_of_an_incident() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/deploy.md")).unwrap();
        let name = "writes to `by_attention` per second, while no event can be folded";
        for ((millions, shards), (units, text)) in
            RECOMMENDED_SHARDS.into_iter().zip([(4.0, "4,000, as a new index has"), (26.0, "26,000"), (40.0, "40,000")])
        {
            assert!(page.contains(&format!("| {millions} million | {shards} | {text} |")), "{millions}");
            let notes = resource(&Traffic::new(f64::from(millions) * 1e6), name).peak;
            let share = notes / new_keys_writes_max(shards_of_marks(shards), units);
            assert!(share <= 1.0, "{millions}: {share}");
        }
        let notes = resource(&Traffic::new(5e8), name);
        assert!(notes.limit_max.is_some_and(|limit| limit < notes.peak), "{notes:?}");
    }

    #[test]
    fn sweep_keeps_up_with_all_that_its_index_takes() {
        let limit = |name| resource(&Traffic::new(1e8), name).webhooks_per_day_max.unwrap();
        // The index has the first of these limits.
        let writes = limit("writes to `by_received` per second");
        assert!(writes < limit("calls that the sweep reads per second"));
        assert!(writes < limit("messages in the events queue"));
        // The same with the shards that docs/deploy.md recommends.
        for (millions, shards) in RECOMMENDED_SHARDS {
            let reads =
                resource(&Traffic::new(f64::from(millions) * 1e6), "calls that the sweep reads per second").peak;
            let share = reads / sweep_reads_max(shards, &reconciler_limits());
            assert!(share <= 0.9, "{millions}: {share}");
            let messages = resource(&Traffic::new(f64::from(millions) * 1e6), "messages in the events queue");
            let depth_max = messages.limit * f64::from(u32::try_from(shards).unwrap()) / 4.0;
            assert!(messages.peak <= 0.5 * depth_max, "{millions}: {messages:?}");
        }
    }

    #[test]
    fn pollers_receive_all_messages_of_the_busiest_time() {
        for traffic in SIZES.map(Traffic::new) {
            let messages = resource(&traffic, "messages sent to the events queue per second").peak;
            let received = pollers(&traffic) * quota::POLLER_POLLS * traffic.batch();
            assert!(received >= messages, "{messages} messages: {traffic:?}");
        }
        // A million webhooks a day are 36 messages a second at the busiest time, in batches of 2.5. 100 million are 3,588 in batches of three.
        assert_eq!(SIZES.map(|size| pollers(&Traffic::new(size))), [2.0, 120.0, 1_196.0]);
    }

    #[test]
    fn drift_check_looks_at_all_settled_calls_or_at_a_sample() {
        // All calls come in eight hours, and the check may fall behind by six. So 480 questions a minute for 14 hours are enough for three
        // webhooks each, and for the questions about one silent call in a thousand.
        let enough = 480.0 * 60.0 * 14.0 * 3.0 / 1.001;
        let sizes = [enough, 1.01 * enough, 1e8, 1e9, 1e10];
        let shares = sizes.map(|size| drift_share(&Traffic::new(size), &reconciler_limits()));
        let part = 14.0 / 24.0;
        let samples = [part * 456.85 / 23_148.15, part * 248.52 / 231_481.5, 0.0];
        assert!((shares[0] - 1.0).abs() < 1e-3 && shares[1] < 1.0, "{shares:?}");
        for (share, expected) in shares[2..].iter().zip(samples) {
            assert!((share - expected).abs() < 1e-6, "{shares:?}");
        }
        // Without busy hours, the check has calls to look at all day.
        let even = Traffic { peak_factor: 1.0, ..Traffic::new(1e8) };
        assert!((drift_share(&even, &reconciler_limits()) - 456.85 / 23_148.15).abs() < 1e-6);
    }

    #[test]
    fn lost_hour_is_asked_about_as_far_as_it_was_dialled_and_else_discovered() {
        // 100 million webhooks a day have 1,388,889 calls an hour. Discovery reads 36,000, and 937 questions a minute are left.
        let traffic = Traffic::new(1e8);
        let hours = recovery_h(&traffic, &reconciler_limits()).unwrap();
        assert!((hours - 138_888.9 / 936.85 / 60.0).abs() < 1e-4, "{hours}");
        let share = discovery_share(&traffic, &reconciler_limits());
        assert!((share - 36_000.0 / 1_388_888.9).abs() < 1e-6, "{share}");
        assert_eq!(discovery_share(&Traffic::new(1e6), &reconciler_limits()), 1.0);
        assert_eq!(recovery_h(&Traffic::new(1e10), &reconciler_limits()), None);
    }

    #[test]
    fn stack_that_dials_every_call_leaves_none_to_discovery() {
        let page = |dialled_share| page::page(&[Traffic { dialled_share, ..Traffic::new(1e6) }], &reconciler_limits());
        assert!(page(0.5).contains("so only discovery finds them"));
        let all = page(1.0);
        assert!(all.contains("the 13,889 calls that Switchhook dialled") && !all.contains("only discovery"), "{all}");
    }

    #[test]
    fn every_webhook_passes_the_limits_on_its_way_once() {
        // Without dials, the model counts each webhook once at each limit that counts webhooks.
        let traffic = Traffic { dialled_share: 0.0, ..Traffic::new(86.4e6) };
        for name in [
            "requests to the HTTP API per second",
            "messages sent to the events queue per second",
            "webhooks per second",
        ] {
            assert!((resource(&traffic, name).mean - 1_000.0).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn cost_per_webhook_is_flat_within_ten_percent_from_a_million_a_day_on() {
        let cost = |size| bill(&Traffic::new(size)).dollars_per_million;
        let much = cost(1e8);
        for (size, spread) in [(1e6, 0.1), (4e6, 0.01), (1e7, 0.01), (1e9, 0.01)] {
            assert!((cost(size) / much - 1.0).abs() < spread, "{size}: {} and {much}", cost(size));
        }
        // Batches of one, and the fixed part for three million webhooks a month.
        assert!(cost(1e5) / much > 1.4, "{}", cost(1e5));
        let single = bill(&Traffic::new(1e6));
        let sum: f64 = single.charges.iter().map(|charge| charge.dollars_per_month).sum();
        assert!((sum - 30.0 * single.dollars_per_million).abs() < 1e-6, "30 million webhooks a month");
    }

    #[test]
    fn claims_have_a_limit_for_one_account_and_one_for_the_runs_of_the_schedule() {
        // 864,000 webhooks a day have one dial a second at the busiest time. A booking takes 10 ms.
        let traffic = Traffic::new(86.4e6);
        let bookings = resource(&traffic, "bookings per second, all for one account, if each call is claimed alone");
        assert!((bookings.peak - 100.0).abs() < 1e-9 && (bookings.limit - 100.0).abs() < 1e-9, "{bookings:?}");
        // A run claims calls in 40 s of each minute, with a seventh of a vCPU.
        let claims = resource(&traffic, "claims per second, if all calls wait for a run of the schedule");
        assert!((claims.limit - 40.0 / 60.0 * 256.0 / 1_769.0 / CLAIM_CPU_S).abs() < 1e-9, "{claims:?}");
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/performance.md")).unwrap();
        let row = format!("| floor: PutItem and SendMessage alone | {:.0} |", CLAIM_CPU_S * 1e6);
        assert!(page.contains(&row), "docs/performance.md must have the row {row}");
    }

    #[test]
    fn lists_that_keep_up_on_average_may_fall_behind_at_the_busiest_time() {
        let says = |size: f64| page::page(&[Traffic::new(size)], &reconciler_limits());
        assert!(
            says(5e5).contains("finds those of the busiest time hours later")
                && !says(5e5).contains("finds them in time")
        );
        assert!(says(1e5).contains("finds them in time"));
    }

    #[test]
    fn log_lines_need_a_request_for_each_invocation() {
        // Each webhook has 1.1 invocations, a third of 1.0333 batches of the consumer, and one of the relay for 1.0311 records.
        let requests =
            resource(&Traffic::new(86.4e6), "requests to CloudWatch Logs per second, if each invocation sends one");
        assert!((requests.mean - 1_000.0 * (1.1 + 1.033_3 / 3.0 + 1.031_1 / 1.028)).abs() < 2.0, "{requests:?}");
        assert!(requests.webhooks_per_day_max.is_some_and(|wall| (5.8e7..6e7).contains(&wall)), "{requests:?}");
    }

    #[test]
    fn numbers_on_the_command_line_must_make_sense() {
        assert_eq!((webhooks("1e6"), share("0.1"), peak_factor("1")), (Ok(1e6), Ok(0.1), Ok(1.0)));
        for text in ["-1", "inf", "NaN", "many", "1e13"] {
            for read in [webhooks, peak_factor, share, inbox_days, call_days] {
                assert!(read(text).is_err(), "{text}");
            }
        }
        assert!(profile("vapi").is_err());
    }
}
