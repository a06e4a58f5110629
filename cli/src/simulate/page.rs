//! The model as a page of Markdown.

use switchhook_aws::inbox::{REFOLD_AFTER_MINUTES, REFOLD_BEFORE_MINUTES, REFOLD_PAGES_MAX};
use switchhook_aws::queue::failing_time;
use switchhook_aws::shards::{SHARDS_DEFAULT, SHARDS_MAX};
use switchhook_operate::cost::{INVOCATION_S, price};
use switchhook_operate::scale::{
    BATCH, BATCH_LINE_BYTES, BATCH_READ_S, Bill, CALL_CPU_S, CLAIM_CPU_S, DIAL, DIALER_S, ENTRY_CPU_S, Effect,
    MONTH_DAYS, PROVISIONED_TABLES, Partitions, QUEUE_S, READ_S, REFOLD_CALL_MINUTES, REFOLD_READ_S, RELAY_LINE_BYTES,
    RETRY_CPU_S, ReconcilerLimits, RefoldMax, Resource, Traffic, Units, bill, discovered_calls,
    discovered_calls_in_time, discovery_share, drift_hours, drift_share, new_keys_writes_at_most, new_keys_writes_max,
    parameter, partitions, pollers, quota, recovery_h, refold_max, relay_batch, resources,
};

use super::text::{dollars, number, precise, table, usd};

const OPENING: &str = "\
# Scaling

This page says how much a stack carries, at which cost, and which limit it meets first. `switchhook simulate` prints it, and a test compares
the two. Every number comes from one place: units that tests measure in the local cloud, constants of the code, defaults of the
template, list prices and default quotas of AWS in us-east-1. Nothing here was measured on AWS. For other traffic:

    target/debug/switchhook simulate --events-per-day 5e6 --dialled-share 0.3
    target/debug/switchhook simulate --help
";

const FORMULAS: &str = "\
## Limits and their formulas

The load at the busiest time is the load at the mean times `p`. Names of units mean the last column of the table above. A partition
of a table or index takes 1,000 write units per second and 10 GB. A GB has 2³⁰ bytes, and only a GB of logs has 10⁹. Each table and index
has at least 4 partitions. So their number is the largest of 4, its write units at the busiest time / 1,000, and its bytes / 10 GB, rounded up.
A limit that depends on partitions grows with the traffic. It is met at the smallest number of webhooks a day for which load and limit are equal.

The stream of the calls table has a shard for each of its partitions. Lambda polls each shard four times a second, and divides the
records into four batches for the relay (`ParallelizationFactor`). A stack that has stored calls for long has many shards with few records
each. A new stack has only the partitions that its writes need, so its batches are larger. Records are those of the stream that are for
the relay.

`by_received` has a new key for each minute and shard, and chance decides which partition takes a key. `m` is the number of keys that
meet on one partition at most, in 99 % of the minutes. It is the smallest number for which C(S, m + 1) / P^m is at most 1 %. S is the
number of keys, which for `by_received` is the number of shards. P is the number of partitions, and C(S, m + 1) the number of groups of
m + 1 keys. Each group meets with a chance of 1 / P^m.

`by_attention` has half as many keys as shards. With 4 shards S is 2, so m is 2. Its keys stay the same, but nothing is written to them before an
incident, so the same formula holds. DynamoDB gives a key a partition of its own only after it had many writes for some time, as the keys of
`by_wake` have. So `by_attention` has the 4 partitions of a new index, unless it was [warmed](deploy.md#warm-indexes). \"At most\" is its limit
with 40 partitions, the quota of an index. If no event at all can be folded, that load is short. Once 120,000 messages are in flight, the queue
hands out only as many as leave it: 120,000 / t per second.

The number of partitions in `x` is not rounded up. `ParallelizationFactor`, the workers of `RepairQueueMapping` and `MemorySize` are lines of
template.yaml, and not parameters. \"Used\" is rounded up to a whole percent.
";

/// Requests per second that a FIFO queue with high throughput takes in the Regions with the lowest quota. Source: the SQS page of message quotas.
const FIFO_REQUESTS_LEAST: f64 = 2_400.0;

/// Returns the page for these sizes, the smallest first. All have the same traffic but for their size.
pub(super) fn page(sizes: &[Traffic], reconciler: &ReconcilerLimits) -> String {
    let Some(first) = sizes.first() else { return String::new() };
    let mut parts = vec![OPENING.to_owned(), assumptions(first), units(first), formulas(first, reconciler)];
    parts.extend(sizes.iter().map(|traffic| size(traffic, reconciler)));
    parts.push(growth(sizes));
    parts.extend([beyond(first), left_out(first, reconciler)]);
    parts.join("\n")
}

fn assumptions(traffic: &Traffic) -> String {
    let Traffic { profile, peak_factor, dialled_share, silent_share, inbox_days, call_days, .. } = traffic;
    let rows = [
        ("w", "webhooks a day / 86,400".to_owned(), "webhooks per second".to_owned()),
        (
            "k",
            number(profile.webhooks_per_call),
            format!("webhooks per call: {} ({})", profile.name, profile.description),
        ),
        ("c", "w / k".to_owned(), "calls per second".to_owned()),
        ("s", dialled_share.to_string(), "share of the calls that Switchhook dials, assumed".to_owned()),
        ("d", "c × s".to_owned(), "dials per second".to_owned()),
        (
            "p",
            number(*peak_factor),
            format!("busiest time / mean, assumed: a day's traffic in {} hours", number(24.0 / peak_factor)),
        ),
        (
            "b",
            format!("w × messages × p × q, from 1 to {}", number(BATCH)),
            "messages in a batch of the consumer: as many as the queue holds at the busiest time, when the day's traffic comes".to_owned(),
        ),
        (
            "x",
            "w × records / (16 × partitions of the calls table)".to_owned(),
            "records that come for a batch of the relay".to_owned(),
        ),
        (
            "g",
            "x / (1 − e^−x)".to_owned(),
            "records in a batch of the relay: batches without a record invoke nothing".to_owned(),
        ),
        ("l", format!("{RELAY_LINE_BYTES} bytes"), "log line of the relay for a batch".to_owned()),
        ("l'", format!("{BATCH_LINE_BYTES} bytes"), "log line of the consumer for a batch".to_owned()),
        ("i", format!("{INVOCATION_S} s"), "duration of an invocation, assumed with a margin".to_owned()),
        (
            "a",
            format!("{} s", number(DIALER_S)),
            "time for which a dial occupies a dialer (`DIALER_S`): at 1 dial per second it is 3.1 s".to_owned(),
        ),
        (
            "q",
            format!("{QUEUE_S} s"),
            "mean time of a message in the queue, from [others' median and p99](performance.md#latency)".to_owned(),
        ),
        (
            "t",
            format!("{} s", precise(failing_time().as_secs_f64())),
            "mean time from the first receipt of a message that always fails until its event waits in the inbox"
                .to_owned(),
        ),
        ("r", format!("{READ_S} s"), "duration of a read from DynamoDB, assumed".to_owned()),
        ("r'", format!("{BATCH_READ_S} s"), "duration of a read of a hundred items by one request, assumed".to_owned()),
        (
            "u",
            format!("{CALL_CPU_S} s"),
            "CPU of the sweep for each call, [measured](performance.md#cpu-per-event) without TLS".to_owned(),
        ),
        (
            "v",
            format!("{RETRY_CPU_S} s"),
            "CPU of the reconciler for each event that is sent again, assumed".to_owned(),
        ),
        (
            "v'",
            format!("{CLAIM_CPU_S} s"),
            "CPU of the scheduler for each claim: [a write and a message](performance.md#cpu-per-event) alone, without TLS"
                .to_owned(),
        ),
        ("", silent_share.to_string(), "share of silent calls, whose ending no webhook reports, assumed".to_owned()),
        ("", number(*inbox_days), "days for which webhooks are stored (`InboxRetentionDays`)".to_owned()),
        ("", number(*call_days), "days for which calls are stored (`CallRetentionDays`)".to_owned()),
    ];
    let rows = rows.map(|(symbol, value, meaning)| [symbol.to_owned(), value, meaning]);
    format!("## Traffic\n\n{}", table(["", "value", "meaning"], rows))
}

fn units(traffic: &Traffic) -> String {
    let (webhook, dial, all): (&Units, &Units, Units) = (&traffic.profile.webhook, &DIAL, traffic.units());
    let rows = webhook.rows().into_iter().zip(dial.rows()).zip(all.rows());
    let rows = rows.map(|(((name, webhook), (_, dial)), (_, all))| {
        [name.to_owned(), precise(webhook), precise(dial), precise(all)]
    });
    format!(
        "## Units\n\nThe test `budget::scale` measures the first two columns. The last one is webhook + dial × s / k.\n\
         A webhook announces more than the one domain event that most sums of [cost](cost.md) count.\n\
         The model uses unrounded numbers. So sums by hand agree in about four digits.\n\n{}",
        table(["unit", "per webhook", "per dial", "per webhook, with dials"], rows)
    )
}

fn formulas(traffic: &Traffic, reconciler: &ReconcilerLimits) -> String {
    let resources = resources(traffic, reconciler).into_iter();
    let rows = resources.map(|resource| {
        [resource.name.to_owned(), resource.load_is.to_owned(), resource.limit_is, resource.beyond.to_owned()]
    });
    let (lookups, hours) = (number(reconciler.drift_lookups), drift_hours(traffic, reconciler));
    // The questions about silent calls come all day.
    let per_minute = reconciler.drift_lookups / (24.0 / hours + traffic.silent_share);
    let all = number(per_minute * 1_440.0 * traffic.profile.webhooks_per_call);
    let new_table = new_keys_writes_max(SHARDS_DEFAULT, quota::NEW_TABLE_PARTITIONS);
    let at_most = new_keys_writes_at_most(SHARDS_MAX, quota::NEW_TABLE_PARTITIONS);
    let new_table_units = quota::NEW_TABLE_PARTITIONS * quota::PARTITION_WRITES;
    let new_stack = |writes: f64| writes / traffic.units().received_writes / traffic.peak_factor * 86_400.0;
    format!(
        "{FORMULAS}\n{}\n\
         **A new table has {} partitions.** Until it has more, `by_received` takes {} writes per second. {} webhooks a day need them\n\
         at the busiest time. With [more shards](deploy.md#more-shards) it takes {} at most. But the inbox table itself takes {} write units then,\n\
         those of {} webhooks a day. [Warm](deploy.md#warm-indexes) tables and indexes take more. The walls below are those of a stack that is older.\n\n\
         The **drift check** is no limit, because it is a sample. It asks about each settled call once, and may fall behind by {} hours.\n\
         In a minute it asks a provider at most {lookups} times, less the questions about silent calls. It needs its requests in {} hours of the\n\
         day: in the busy ones, and in those by which it may fall behind. That is enough for all calls of {all} webhooks a day. With more\n\
         calls, it leaves out those that it has not reached by then. The metric `drift_skipped_ms` says how much it leaves out.\n",
        table(["load", "at the mean", "limit", "beyond it"], rows),
        number(quota::NEW_TABLE_PARTITIONS),
        number(new_table),
        number(new_stack(new_table)),
        number(at_most),
        number(new_table_units),
        number(new_table_units / traffic.units().inbox_writes / traffic.peak_factor * 86_400.0),
        number(reconciler.drift_lag_h),
        number(hours),
    )
}

fn size(traffic: &Traffic, reconciler: &ReconcilerLimits) -> String {
    let all = resources(traffic, reconciler);
    let rows = all.iter().map(|resource| {
        let share = format!("{} %", number((100.0 * resource.share()).ceil()));
        let share = if resource.is_exceeded() { format!("**{share}**") } else { share };
        [
            resource.name.to_owned(),
            number(resource.mean),
            number(resource.peak),
            number(resource.limit),
            share,
            resource.moved_by.to_owned(),
        ]
    });
    let size = number(traffic.webhooks_per_day);
    let webhooks = if size == "1" { "webhook" } else { "webhooks" };
    format!(
        "## {size} {webhooks} a day\n\n{}\n{}\n{}\n{}",
        table(["load", "mean", "busiest", "limit", "used", "moved by"], rows),
        walls(&all),
        other(&partitions(traffic), traffic, reconciler),
        charges(&bill(traffic))
    )
}

/// Names the limits that this traffic exceeds, in the order in which growing traffic meets them.
fn walls(resources: &[Resource]) -> String {
    let mut ordered: Vec<(&Resource, f64)> =
        resources.iter().filter_map(|resource| Some((resource, resource.webhooks_per_day_max?))).collect();
    ordered.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let sentence = |what: &str, wall: Option<&(&Resource, f64)>| {
        wall.map_or_else(String::new, |(wall, met)| {
            let (name, moved_by, beyond, met) = (wall.name, wall.moved_by, wall.beyond, number(*met));
            format!("**{what}: {name}**, at {met} webhooks a day. {beyond}. Moved by {moved_by}.\n\n")
        })
    };
    let exceeded = ordered.iter().filter(|(resource, _)| resource.is_exceeded());
    let list: Vec<String> = exceeded
        .map(|(wall, met)| {
            let at_most =
                wall.webhooks_per_day_at_most.map_or_else(String::new, |met| format!(", at most {}", number(met)));
            format!("- {} ({}{at_most}).\n", wall.name, number(*met))
        })
        .collect();
    let exceeded = match list.as_slice() {
        [] => "No limit is exceeded at this size.\n".to_owned(),
        list => format!(
            "These limits are exceeded. The numbers are the webhooks a day at which they are met. \"At most\" is the number with the \
             largest value\nof the parameter. Beyond it, a second stack helps. Where all calls are at one account, more accounts help too.\n\n{}",
            list.concat()
        ),
    };
    let first = ordered.first();
    let refusing = ordered.iter().find(|(resource, _)| resource.effect == Effect::RefusesWebhooks);
    if first.map(|(resource, _)| resource.name) == refusing.map(|(resource, _)| resource.name) {
        return format!("{}{exceeded}", sentence("First wall, which webhooks meet", first));
    }
    format!("{}{}{exceeded}", sentence("First wall", first), sentence("First wall that webhooks meet", refusing))
}

/// Lists partitions, pollers, the capacity of a new account, the time after which lost calls are found, and the share of the drift check.
fn other(partitions: &Partitions, traffic: &Traffic, reconciler: &ReconcilerLimits) -> String {
    let Partitions { inbox, received, calls, calls_by_writes, inbox_gb, calls_gb } = partitions;
    let new_account = quota::LAMBDA_CONCURRENCY_NEW * quota::LAMBDA_RATE_PER_CONCURRENCY;
    let pollers = pollers(traffic);
    let too_many = if pollers > parameter::CONSUMER_POLLERS_MAX {
        format!(" The parameter allows {}.", number(parameter::CONSUMER_POLLERS_MAX))
    } else {
        String::new()
    };
    format!(
        "Other numbers of this size:\n\n\
         - Partitions: {} of the inbox table with {} GB, {} of its index `by_received`, and {} of the calls table with {} GB. The writes \
         of calls alone need {}.\n\
         - A batch of the consumer has {} messages on average. A batch of the relay has {} records, and {} in a new stack.\n\
         - Provisioned pollers (`ConsumerPollers`), instead of those that Lambda adds by itself: {} for ${} a month. Each receives {} \
         batches per second, and the busiest time has w × messages × p / b.{too_many}\n\
         - A new account has a concurrency of {}, so {} invocations per second, until AWS raises it.\n\
         {}\
         - The drift check looks at {} % of the settled calls, if all are at one provider.\n",
        number(*inbox),
        number(*inbox_gb),
        number(*received),
        number(*calls),
        number(*calls_gb),
        number(*calls_by_writes),
        number(traffic.batch()),
        number(relay_batch(traffic)),
        number(relay_batch(&Traffic { call_days: 0.0, ..*traffic })),
        number(pollers),
        dollars(pollers * price::POLLER_HOUR * 24.0 * MONTH_DAYS),
        number(quota::POLLER_POLLS),
        number(quota::LAMBDA_CONCURRENCY_NEW),
        number(new_account),
        lost_hour(traffic, reconciler),
        number(100.0 * drift_share(traffic, reconciler)),
    )
}

/// Says what happens to the calls of an hour whose webhooks were all lost, if all are at one provider.
fn lost_hour(traffic: &Traffic, reconciler: &ReconcilerLimits) -> String {
    let (calls, dialled) = (traffic.calls() * 3_600.0, traffic.dials() * 3_600.0);
    let asked = recovery_h(traffic, reconciler)
        .map_or_else(|| "asks about none of".to_owned(), |hours| format!("needs {} hours to ask about", number(hours)));
    let (share, in_time) = (discovery_share(traffic, reconciler), discovered_calls_in_time(traffic, reconciler));
    let found = if share < 1.0 {
        format!(
            "so it falls behind.\n  It then reads no call twice, so it reads {} per hour, and leaves out {} % of all calls",
            number(discovered_calls(traffic, reconciler)),
            number(100.0 * (1.0 - share))
        )
    } else if calls > in_time {
        "so it finds them hours later".to_owned()
    } else if calls * traffic.peak_factor > in_time {
        "so it finds those of the busiest time hours later, and the others in time".to_owned()
    } else {
        "so it finds them in time".to_owned()
    };
    let asked = format!(
        "- If all webhooks of an hour of mean traffic are lost, the reconciler {asked} the {} calls that Switchhook dialled.",
        number(dialled)
    );
    if traffic.dialled_share >= 1.0 {
        return format!("{asked}\n");
    }
    format!(
        "{asked} Nothing is\n  stored about the other {}, so only discovery finds them. It keeps up with {} calls per hour at one provider, \
         and looks back {} hours.\n  This traffic has {} per hour on average, {found}.\n  At the busiest time, an hour has {} times as many.\n",
        number(calls - dialled),
        number(in_time),
        number(reconciler.discovery_look_back_h),
        number(calls),
        number(traffic.peak_factor),
    )
}

fn charges(bill: &Bill) -> String {
    let rows = bill.charges.iter().map(|charge| {
        [
            charge.name.to_owned(),
            dollars(charge.dollars_per_million),
            dollars(charge.dollars_per_month),
            charge.formula.to_owned(),
        ]
    });
    let sum =
        ["**together**".to_owned(), dollars(bill.dollars_per_million), dollars(bill.dollars_per_month), String::new()];
    table(["USD", "per million webhooks", "per month", "per webhook"], rows.chain([sum]))
}

/// True for a charge that does not depend on the traffic.
fn is_fixed(name: &str) -> bool {
    matches!(name, "idle stack" | "series of metrics")
}

fn growth(sizes: &[Traffic]) -> String {
    let base = sizes.get(sizes.len() / 2).map_or(0.0, |traffic| bill(traffic).dollars_per_million);
    let rows = sizes.iter().map(|traffic| {
        let bill = bill(traffic);
        let of = |is_wanted: fn(&str) -> bool| {
            bill.charges
                .iter()
                .filter(|charge| is_wanted(charge.name))
                .map(|charge| charge.dollars_per_million)
                .sum::<f64>()
        };
        [
            number(traffic.webhooks_per_day),
            number(traffic.batch()),
            dollars(bill.dollars_per_month),
            dollars(of(|name| !name.ends_with(" stored") && !is_fixed(name))),
            dollars(of(|name| name.ends_with(" stored"))),
            dollars(of(is_fixed)),
            dollars(bill.dollars_per_million),
            format!("{:+.1} %", 100.0 * (bill.dollars_per_million / base - 1.0)),
        ]
    });
    let titles =
        ["webhooks a day", "b", "USD per month", "traffic, per million", "storage", "fixed", "together", "difference"];
    let first = sizes.first().map(bill);
    let one = first.as_ref().map_or(0.0, |bill| bill.batches_of_one);
    let provisioned = first.as_ref().map_or(0.0, |bill| bill.provisioned_tables);
    format!(
        "## Growth of the cost\n\n{}\n\
         The last column compares each size with the middle one. The cost per webhook does not grow with the traffic, because no unit depends on\n\
         how much else arrives. It is higher while traffic is small: fewer webhooks share the fixed part, and batches have fewer messages. With b = 1\n\
         instead of {}, a million webhooks cost ${} more. Only the batches of the relay depend on how much is stored: the sums have those of a stack\n\
         that stores as much as it deletes. A month has {MONTH_DAYS} days. With [provisioned tables](cost.md#provisioned-tables), of whose capacity {} % are used,\n\
         a million webhooks cost ${} less. But a stack with such tables pays ${} a month more, whatever the traffic, and for the capacity that waits\n\
         for trouble.\n\n\
         Prices: {} per million requests to the HTTP API, {} per million invocations of {INVOCATION_S} s, {} per million write units,\n\
         and {} per million read units. SQS takes {} per million requests, EventBridge {} per million domain events, and CloudWatch\n\
         {} per GB of logs. Storage costs {} per GB and month, and {} more for the point-in-time recovery of a table. A dialer costs\n\
         {} per million seconds, and a provisioned poller {} per month. [Cost](cost.md) has the same prices, and the budget that tests hold.\n",
        table(titles, rows),
        number(BATCH),
        dollars(one),
        number(100.0 * price::PROVISIONED_USE),
        dollars(provisioned),
        dollars(PROVISIONED_TABLES.1),
        usd(1e6 * price::HTTP_API),
        usd(1e6 * price::invocation()),
        usd(1e6 * price::WRITE_UNIT),
        usd(1e6 * price::READ_UNIT),
        usd(1e6 * price::SQS_FIFO),
        usd(1e6 * price::EVENT),
        usd(price::LOG_GB),
        usd(price::STORED_GB),
        usd(price::RECOVERY_GB),
        usd(1e6 * price::running(1.0)),
        usd(price::POLLER_HOUR * 24.0 * MONTH_DAYS),
    )
}

fn beyond(traffic: &Traffic) -> String {
    let wall = FIFO_REQUESTS_LEAST / traffic.units().messages / traffic.peak_factor * 86_400.0;
    format!(
        "## Beyond one Region or account\n\n\
         - **Quotas count per account and Region.** AWS raises those of API Gateway, Lambda, SQS, EventBridge, DynamoDB and CloudWatch Logs on\n  \
         request. The number of partitions follows the load by itself. But `by_received` and `by_wake` have few keys, and a key takes the writes\n  \
         of one partition. [`IndexShards`](deploy.md#more-shards) is their number.\n\
         - **Other Regions have lower quotas.** A FIFO queue with high throughput takes {} requests per second in us-east-1, us-west-2 and\n  \
         eu-west-1, and {} to 19,000 elsewhere. Where it takes {1}, that limit comes at {} million webhooks a day.\n\
         - **A second stack needs no change of the code.** Calls do not depend on each other. So each account at a provider posts its webhooks\n  \
         to one stack, in any account or Region. Where one account at a provider has more traffic than a stack carries, its agents or numbers\n  \
         must be divided.\n\
         - **Each stack has its own** do-not-call list, dial rates, idempotency keys and index of numbers. Numbers that ask not to be called\n  \
         must be blocked in every stack. The rate of one provider's account must be divided among the stacks that dial with it.\n\
         - **Subscribers** get domain events from one bus per stack. EventBridge can send them to a bus in another account or Region, for\n  \
         another {} per million.\n",
        number(quota::FIFO_REQUESTS),
        number(FIFO_REQUESTS_LEAST),
        number(wall / 1e6),
        usd(1e6 * price::EVENT),
    )
}

fn left_out(traffic: &Traffic, reconciler: &ReconcilerLimits) -> String {
    let RefoldMax { entries, webhooks_by_time, webhooks_by_pages } = refold_max(traffic);
    format!(
        "## What the model leaves out\n\n\
         - Limits of providers: how many calls an account may place or hold at the same time, and how often it may be asked.\n\
         - Subscribers: EventBridge limits the events that it delivers to targets, and forwarding to a URL has a rate of its own.\n\
         - Storage of log lines: at $0.03 per GB and month, they are less than ten cents per million webhooks and month.\n\
         - What a stack of this size pays beside its traffic, if it has more shards or provisioned pollers. Each shard has reads of its own in every run.\n\
         - KMS, CloudFront, WAF, traces, transfer of data out of the Region, and rebates for volume.\n\
         - Refolds. A refold reads the index entries of its shard in the minutes of a call, from {REFOLD_BEFORE_MINUTES} before its start until \
         {REFOLD_AFTER_MINUTES} after its end. It reads\n  for at most {REFOLD_READ_S} seconds, and at most {REFOLD_PAGES_MAX} pages of 1 MB. The time is used up first. If an entry takes \
         {ENTRY_CPU_S} s of CPU, as is\n  assumed, the time is enough for {} entries. With {SHARDS_DEFAULT} shards, a refold of a call of {REFOLD_CALL_MINUTES} minutes has more to read at the \
         busiest time of\n  {} million webhooks a day. The pages would be enough up to {} million. Then the refold is refused, and P2RefoldLimitAlarm goes\n  \
         off. A settled call stays as it is until somebody runs `switchhook verify`. More shards help.\n\
         - Webhooks that are sent again, forged or not readable, lookups, discovery, and repairs. A second delivery costs about as much as the first.\n\
         - Events that fail with a permanent error. A message that waits for its next try counts as one in the events queue, so {} for each shard\n  \
         pause the sweep. An event that fails for more than two minutes has no message, and is tried ten more times within two hours.\n\
         - How fast AWS follows: Lambda adds 1,000 concurrent invocations every ten seconds, and an on-demand table takes twice its last peak\n  \
         at once.\n\
         - Batches of the consumer with more than {} messages. They make it cheaper than the model says. Those of the relay grow only in a stack that\n  \
         stores little yet.\n",
        number(entries),
        number(webhooks_by_time / 1e6),
        number(webhooks_by_pages / 1e6),
        number(reconciler.queue_depth_per_shard),
        number(BATCH),
    )
}
