//! One run of the schedule: the calls that are due, and those that will be before the next run.

use std::collections::BTreeSet;
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::WakeQueue;
use switchhook_aws::inbox::minute_of;
use switchhook_aws::queue::DueWork;
use switchhook_domain::{Provider, Timestamp};
use switchhook_providers::api_url;

use crate::flow::Flow;
use crate::{RUN_AHEAD, Report, Scheduler};

/// Time after which a run starts no further claims. The function's timeout is 50 s.
const RUN_MAX: Duration = Duration::from_secs(40);
/// Time that a run looks ahead: a little more than the time to the next run.
const LOOK_AHEAD: Duration = Duration::from_secs(65);
/// Delays after a run at which the scheduler looks again at a provider that has as many calls as it may have.
const LOOKS: [Duration; 5] = [
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(30),
    Duration::from_secs(40),
    Duration::from_secs(50),
];
/// Largest number of calls that a run reads from the index at once.
const PAGE_MAX: u64 = 1_000;
/// Number of calls per shard that a run reads for other providers, if the first provider of the calls is unavailable.
const FALLBACK_PAGE: u64 = 100;
/// Number of calls per shard that a run reads to find a probe. Some of them may be changed by others meanwhile.
const PROBE_PAGE: u64 = 3;

impl Scheduler {
    pub(crate) async fn claim_due(
        &self,
        flow: &mut Flow<'_>,
        report: &mut Report,
        started: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let providers = Provider::ALL.into_iter().filter(|provider| api_url(*provider).is_some()).collect();
        self.claim_for(&providers, flow, report, started, trace_id).await
    }

    /// Has the scheduler look again, every ten seconds until the next run, at the providers that have as many calls as they may have.
    pub(crate) async fn look_again(&self, flow: &Flow<'_>, report: &mut Report) -> Result<(), Error> {
        let full: Vec<Provider> = flow.full().collect();
        report.full = full.len() as u64;
        let looks = full.iter().flat_map(|provider| LOOKS.map(|delay| (DueWork::Provider(*provider), delay)));
        self.due_queue.send_due(&looks.collect::<Vec<_>>()).await
    }

    /// Claims calls that wait for these providers. Returns the first error.
    pub(crate) async fn claim_for(
        &self,
        providers: &BTreeSet<Provider>,
        flow: &mut Flow<'_>,
        report: &mut Report,
        started: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let mut result = Ok(());
        for provider in providers {
            for queue in [WakeQueue::Dial(*provider), WakeQueue::DialAny(*provider)] {
                let claims = self.claim_from(queue, *provider, flow, report, started, trace_id).await;
                result = result.and(claims);
            }
        }
        result
    }

    /// Claims calls of one wake queue.
    async fn claim_from(
        &self,
        queue: WakeQueue,
        provider: Provider,
        flow: &mut Flow<'_>,
        report: &mut Report,
        started: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let is_configured = flow.is_configured(provider);
        let mut result = Ok(());
        // Each run starts with another shard, so that no shard is always the last.
        for shard in self.calls.wake_shards_from(minute_of(started).unsigned_abs()) {
            let now = self.clock.now();
            let limit = self.page_limit(queue, provider, flow, now).await?;
            if limit == 0 || flow.is_full(provider) || is_time_up(report, started, now) {
                break;
            }
            let mut pages = self.calls.dial_queue_pages(queue, shard, now.plus(LOOK_AHEAD), limit);
            while let Some(page) = pages.next().await? {
                let now = self.clock.now();
                let (due, later): (Vec<_>, Vec<_>) = page.items.into_iter().partition(|(_, at)| *at <= now);
                let oldest = due.iter().map(|(_, at)| now.millis_since(*at).unsigned_abs()).max();
                report.due_overdue_ms = report.due_overdue_ms.max(oldest);
                if !is_configured && queue == WakeQueue::Dial(provider) {
                    // If an operator removed the provider's rate on purpose, these calls wait. If it is missing by mistake,
                    // the count `unconfigured` shows it.
                    report.unconfigured += u64::from(!due.is_empty());
                    break;
                }
                let is_last_page = !later.is_empty() || !flow.is_available(provider, now).await?;
                result = result.and(self.delay(later, report).await);
                let due = due.into_iter().map(|(call_id, _)| call_id).collect();
                result = result.and(self.claim_all(flow, due, RUN_AHEAD, report, trace_id).await);
                if is_last_page
                    || flow.free_places(provider, RUN_AHEAD, now).await? == 0
                    || is_time_up(report, started, now)
                {
                    break;
                }
            }
            // An unconfigured provider costs one request per queue and run.
            if !is_configured {
                break;
            }
        }
        result
    }

    /// Number of calls that the run reads from one shard of a wake queue. Zero if it need not read the queue.
    async fn page_limit(
        &self,
        queue: WakeQueue,
        provider: Provider,
        flow: &mut Flow<'_>,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let may_use_others = queue == WakeQueue::DialAny(provider);
        Ok(if flow.is_available(provider, now).await? {
            match flow.free_places(provider, RUN_AHEAD, now).await? {
                // One call shows whether any waits.
                0 if flow.has_no_place(provider, now).await? => 1,
                places => places.min(PAGE_MAX),
            }
        } else if may_use_others && flow.is_other_available(provider, now).await? {
            FALLBACK_PAGE
        } else if !flow.is_configured(provider) {
            u64::from(!may_use_others)
        } else if flow.health(provider).await?.needs_probe(now) {
            PROBE_PAGE
        } else {
            0
        })
    }
}

/// True if the run may start no further claims. The report then names this cause.
fn is_time_up(report: &mut Report, started: Timestamp, now: Timestamp) -> bool {
    let is_up = now >= started.plus(RUN_MAX);
    report.budget_used_up |= u64::from(is_up);
    is_up
}
