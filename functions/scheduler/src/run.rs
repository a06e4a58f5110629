//! One run of the schedule: the calls that are due, and those that will be before the next run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::{WakeEntry, WakeQueue};
use switchhook_aws::dynamodb::Pages;
use switchhook_aws::error::both;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::queue::DueWork;
use switchhook_domain::{CallId, Provider, Timestamp};
use switchhook_providers::api_url;

use crate::flow::{Flow, Turn};
use crate::wake::DELAY_MAX;
use crate::{Report, Scheduler};

/// Time after which a run starts no further claims. The function's timeout is 50 s.
pub const RUN_MAX: Duration = Duration::from_secs(40);
/// Time that a run looks ahead: a little more than the usual time to the next run. AWS starts a run up to a minute late. If the next run
/// is late, it claims the calls that were due meanwhile, up to a minute after their time.
const LOOK_AHEAD: Duration = Duration::from_secs(65);
/// Delays at which the scheduler looks again at a provider that has as many calls as it may have, until a run does.
const LOOKS: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
    Duration::from_secs(40),
    Duration::from_secs(50),
];
/// Minutes between two counts of the providers without a dial rate. AWS starts a run up to a minute late, so the minute of a count may have
/// no run. Then the count is skipped.
const COUNT_EVERY_MINUTES: i64 = 10;
/// Limits on the calls that a run reads from one shard of a wake queue at once. Fewer calls would cost as much: DynamoDB charges for 4 KB.
const PAGE_MIN: u64 = 20;
const PAGE_MAX: u64 = 1_000;
/// Largest number of calls that a run claims at once for one provider.
const BATCH_MAX: u64 = 100;
/// Number of calls that a run tries at once for other providers, if the first provider of the calls is unavailable.
const FALLBACK_PAGE: u64 = 100;
/// Number of calls that no provider takes after which a run looks for no further calls of unavailable providers. Each costs one read.
const FALLBACK_WAITING_MAX: u64 = 5_000;
/// Number of calls that a run tries at once to find a probe. Some of them may be changed by others meanwhile.
const PROBE_PAGE: u64 = 3;

/// Calls of one shard of a wake queue, the oldest first.
struct Line {
    queue: WakeQueue,
    /// Provider that the calls are placed with, unless it is unavailable.
    provider: Provider,
    pages: Pages<(CallId, Timestamp)>,
    /// Due calls that were read and not taken yet.
    due: VecDeque<(CallId, Timestamp)>,
    /// True if no page is left to read, or no further call is due.
    is_read: bool,
}

/// Calls that lines may take together in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pool {
    /// The provider of the lines takes the calls, as many as it has places.
    Places(Provider),
    /// The provider of the lines is unavailable. Others may take some of the calls.
    Others,
    /// The provider needs a probe, and nobody else takes calls.
    Probe(Provider),
}

impl Scheduler {
    pub(crate) async fn claim_due(
        &self,
        flow: &mut Flow<'_>,
        report: &mut Report,
        started: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let built_in = Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some());
        let mut providers: BTreeSet<Provider> = built_in.chain(self.dial_rates.providers()).collect();
        let listed = self.list_accounts(&mut providers).await;
        both(listed, self.claim_for(&providers, LOOK_AHEAD, flow, report, started, trace_id).await)
    }

    /// Lists the accounts that have a rate, and adds the listed ones to the providers. Calls may wait for an account that has no rate any more.
    async fn list_accounts(&self, providers: &mut BTreeSet<Provider>) -> Result<(), Error> {
        let listed = self.calls.accounts().await?;
        let with_rate = self.dial_rates.providers().filter(|provider| provider.is_named());
        let new: BTreeSet<Provider> = with_rate.filter(|account| !listed.contains(account)).collect();
        providers.extend(listed);
        if new.is_empty() { Ok(()) } else { self.calls.list_accounts(&new).await }
    }

    /// Has the scheduler look again at these providers, which have as many calls as they may have, every ten seconds until the next run. At
    /// those that are paused, it looks when the pause ends.
    pub(crate) async fn look_again(&self, full: &BTreeSet<Provider>, flow: &Flow<'_>) -> Result<(), Error> {
        let now = self.clock.now();
        let full = full.iter().flat_map(|provider| LOOKS.map(|delay| (DueWork::Provider(*provider), delay)));
        let paused = flow.paused().iter().map(|(provider, until)| {
            let delay = u64::try_from(until.millis_since(now)).unwrap_or_default();
            (DueWork::Provider(*provider), Duration::from_millis(delay))
        });
        let looks: Vec<(DueWork, Duration)> = full.chain(paused).filter(|(_, delay)| *delay <= DELAY_MAX).collect();
        self.due_queue.send_due(&looks).await
    }

    /// Claims calls that wait for these providers, the oldest first. Has those delivered that will be due in the time `ahead`, also if their
    /// provider takes no call now. Returns [one](switchhook_aws::error::note_error) of the errors.
    ///
    /// **All calls that may take the same places are claimed in the order of their due times**, whichever wake queue and shard they wait
    /// in. So no call waits behind later ones for ever. Each round takes a batch of the oldest calls. The places of one provider limit the
    /// calls that a batch takes for it, so calls of other providers do not wait behind them.
    pub(crate) async fn claim_for(
        &self,
        providers: &BTreeSet<Provider>,
        ahead: Duration,
        flow: &mut Flow<'_>,
        report: &mut Report,
        started: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        let mut lines = Vec::new();
        for provider in providers {
            for queue in [WakeQueue::Dial(*provider), WakeQueue::DialAny(*provider)] {
                let opened = self.open_lines((queue, *provider), ahead, &mut lines, flow, report, started).await;
                result = both(result, opened);
            }
        }
        while !is_time_up(report, started, self.clock.now()) {
            let (batch, read) = self.take_oldest(&mut lines, flow, report).await;
            result = both(result, read);
            if batch.is_empty() {
                break;
            }
            result = both(result, self.claim_all(flow, batch, Turn::OldestFirst, report, trace_id).await);
        }
        result = both(result, flow.take_error());
        let now = self.clock.now();
        if result.is_ok() && !is_time_up(report, started, now) {
            for provider in providers {
                flow.end_waiting(*provider, now).await?;
            }
        }
        result
    }

    /// Reads the first page of each shard of a wake queue, if calls of the queue can be claimed now. Of a queue whose provider has no
    /// free place, it reads the oldest calls only, which show how long calls wait.
    ///
    /// While a provider is paused, or its circuit is open and needs no probe, due calls that name no other provider are not read. So those
    /// that are too late end with the next probe.
    async fn open_lines(
        &self,
        (queue, provider): (WakeQueue, Provider),
        ahead: Duration,
        lines: &mut Vec<Line>,
        flow: &mut Flow<'_>,
        report: &mut Report,
        started: Timestamp,
    ) -> Result<(), Error> {
        let now = self.clock.now();
        let pool = self.pool_of(queue, provider, flow, report, now).await;
        if !flow.is_configured(provider) && (pool.is_none() || queue == WakeQueue::Dial(provider)) {
            let is_time = minute_of(started) % COUNT_EVERY_MINUTES == 0;
            return if is_time { self.note_waiting(queue, provider, flow).await } else { Ok(()) };
        }
        let until = now.plus(ahead);
        let limit = pool.map(|(_, calls)| calls.clamp(PAGE_MIN, PAGE_MAX));
        if limit.is_none() {
            flow.await_resumption(provider, now).await;
        }
        let soon = now.plus(Duration::from_millis(1))..=until;
        let dials = flow.dials_per_run(provider);
        // An error of one shard hides no other shard.
        let mut result = Ok(());
        // Each run starts with another shard, so that no shard is always the last.
        for shard in self.calls.wake_shards_from(minute_of(started).unsigned_abs()) {
            if is_time_up(report, started, self.clock.now()) {
                break;
            }
            let Some(limit) = limit else {
                result = both(result, self.look_ahead(queue, shard, soon.clone(), dials, None, report).await);
                continue;
            };
            let pages = self.calls.dial_queue_pages(queue, shard, until, limit);
            let mut line = Line { queue, provider, pages, due: VecDeque::new(), is_read: false };
            let last = self.read_page(&mut line, report).await;
            let due = line.due.len() as u64;
            // After an error too: the calls of the page that are due are claimed.
            lines.push(line);
            let read = match last {
                // Calls that are due use up the dial rate before later ones.
                Ok(Some(last)) => {
                    let later = dials.saturating_sub(due);
                    self.look_ahead(queue, shard, soon.clone(), later, Some(last), report).await
                }
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            result = both(result, read);
        }
        result
    }

    /// Notes the provider, which has no dial rate, if due calls of the queue wait that no other provider takes. If an operator removed the rate
    /// on purpose, these calls wait. If it is missing by mistake, the count `unconfigured` shows it.
    async fn note_waiting(&self, queue: WakeQueue, provider: Provider, flow: &mut Flow<'_>) -> Result<(), Error> {
        for shard in self.calls.wake_shards() {
            let oldest = self.calls.dial_queue_pages(queue, shard, self.clock.now(), 1).next().await?;
            let Some((call_id, _)) = oldest.and_then(|page| page.items.into_iter().next()) else { continue };
            if queue == WakeQueue::Dial(provider) {
                flow.note_unconfigured(provider);
                break;
            }
            if let Some(call) = self.calls.get_call(&call_id).await? {
                flow.note_if_unconfigured(&call);
            }
        }
        Ok(())
    }

    /// Has calls of a shard delivered when they are due in this time: up to `limit` calls after the entry `after`.
    async fn look_ahead(
        &self,
        queue: WakeQueue,
        shard: u64,
        soon: RangeInclusive<Timestamp>,
        limit: u64,
        after: Option<WakeEntry>,
        report: &mut Report,
    ) -> Result<(), Error> {
        if soon.is_empty() || limit == 0 {
            return Ok(());
        }
        let limit = i32::try_from(limit.min(PAGE_MAX)).unwrap_or(i32::MAX);
        let after = after.filter(|entry| soon.contains(&entry.wake_at));
        let (entries, _) = self.calls.wake_entries(queue, shard, soon, false, limit, after.as_ref()).await?;
        self.delay(entries.into_iter().map(|entry| (entry.call_id, entry.wake_at)).collect(), report).await
    }

    /// Reads the next page of a line. Has the calls delivered that are due soon. Returns the last entry of the page if others follow.
    async fn read_page(&self, line: &mut Line, report: &mut Report) -> Result<Option<WakeEntry>, Error> {
        // No page follows an error.
        let Some(page) = line.pages.next().await.inspect_err(|_| line.is_read = true)? else {
            line.is_read = true;
            return Ok(None);
        };
        let now = self.clock.now();
        let last = page.items.last().filter(|_| page.next.is_some()).cloned();
        let (due, later): (Vec<_>, Vec<_>) = page.items.into_iter().partition(|(_, at)| *at <= now);
        let oldest = due.iter().map(|(_, at)| now.millis_since(*at).unsigned_abs()).max();
        report.due_overdue_ms = report.due_overdue_ms.max(oldest);
        line.is_read = page.next.is_none() || !later.is_empty();
        line.due.extend(due);
        self.delay(later, report).await?;
        Ok(last.map(|(call_id, wake_at)| WakeEntry { call_id, wake_at }))
    }

    /// Takes the oldest calls of all lines, as many as can be claimed now. Drops lines whose calls cannot be claimed in this run. Returns
    /// the first error beside the calls.
    async fn take_oldest(
        &self,
        lines: &mut Vec<Line>,
        flow: &mut Flow<'_>,
        report: &mut Report,
    ) -> (Vec<CallId>, Result<(), Error>) {
        let now = self.clock.now();
        let mut result = Ok(());
        let mut pools = BTreeMap::new();
        let mut usable = Vec::new();
        for line in lines.drain(..) {
            if let Some((pool, calls @ 1..)) = self.pool_of(line.queue, line.provider, flow, report, now).await
                && !(line.is_read && line.due.is_empty())
            {
                pools.insert(pool, calls.min(BATCH_MAX));
                usable.push((line, pool));
            }
        }
        let mut batch = Vec::new();
        loop {
            for (line, pool) in &mut usable {
                let is_open = pools.get(pool).is_some_and(|calls| *calls > 0);
                while is_open && line.due.is_empty() && !line.is_read {
                    result = both(result, self.read_page(line, report).await.map(drop));
                }
            }
            let open = usable.iter_mut().filter(|(_, pool)| pools.get(pool).is_some_and(|calls| *calls > 0));
            let heads = open.filter_map(|(line, pool)| Some((line.due.front()?.1, line, *pool)));
            let Some((_, line, pool)) = heads.min_by_key(|(due_at, ..)| *due_at) else { break };
            batch.extend(line.due.pop_front().map(|(call_id, _)| call_id));
            pools.entry(pool).and_modify(|calls| *calls -= 1);
        }
        lines.extend(usable.into_iter().map(|(line, _)| line));
        (batch, result)
    }

    /// Returns the pool of the calls of a wake queue, and how many calls of it can be claimed now. `None` if its calls need not be
    /// read.
    async fn pool_of(
        &self,
        queue: WakeQueue,
        provider: Provider,
        flow: &mut Flow<'_>,
        report: &Report,
        now: Timestamp,
    ) -> Option<(Pool, u64)> {
        if let Some(places) = flow.places(provider, Turn::OldestFirst, now).await {
            // One call shows whether any waits.
            let shows_waiting = places == 0 && !flow.is_full(provider) && flow.has_no_place(provider, now).await;
            return Some((Pool::Places(provider), if shows_waiting { 1 } else { places }));
        }
        let probe = flow.needs_probe(provider, now).await.then_some((Pool::Probe(provider), PROBE_PAGE));
        if queue == WakeQueue::Dial(provider) {
            return probe;
        }
        let places = flow.free_places_of_others(provider, Turn::OldestFirst, now).await;
        let may_read_on = report.waiting < FALLBACK_WAITING_MAX;
        match places {
            Some(1..) if may_read_on => Some((Pool::Others, FALLBACK_PAGE)),
            // Nobody else may have a call that can be the probe.
            _ if probe.is_none() && may_read_on && flow.others_need_probe(provider, now).await => {
                Some((Pool::Others, FALLBACK_PAGE))
            }
            Some(_) => probe.or(Some((Pool::Others, 0))),
            None => probe,
        }
    }
}

/// True if the run may start no further claims. The report then names this cause.
fn is_time_up(report: &mut Report, started: Timestamp, now: Timestamp) -> bool {
    let is_up = now >= started.plus(RUN_MAX);
    report.budget_used_up |= u64::from(is_up);
    is_up
}
