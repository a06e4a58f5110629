//! Discovery: once an hour, reads the providers' own lists of calls, and stores the calls that nobody reported.
//!
//! **A call that Switchhook knows is left alone**, so a list costs reads, and writes only for calls whose webhooks were
//! all lost. Each period begins [`OVERLAP`] before the end of the one before. So a call that was alive when it was read is
//! read again after it has ended. A cursor per provider in the inbox table holds the period that is being read, and the next page. A scheduled
//! run hands each list that is due to a [worker](crate::repair), so that a long list of one provider does not keep the others from being read.
//! The worker reads pages as long as it has time, at most [`PAGES_MAX`]. It begins none after [`LOOKUPS_MAX`] lookups of calls that the list
//! only names. The next minute's worker continues, also in the middle of a page.
//!
//! **Time that no period covers is counted.** A list that has more calls than the runs can read falls behind. Beyond [`LOOK_BACK_MAX`] the
//! calls are left out, and the metric `discovery_skipped_ms` tells of how much time. It also has the time of a period that was given up,
//! as far as the next one does not cover it. A worker that begins when its time is over counts as `discovery_postponed`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use switchhook_aws::Error;
use switchhook_aws::calls::Resolved;
use switchhook_aws::inbox::{DiscoveryCursor, NewEvent, PutOutcome, submit};
use switchhook_aws::queue::{RepairKind, RepairWork};
use switchhook_aws::telemetry::Decision;
use switchhook_domain::{AttemptKey, CallId, Provider, ProviderEvent, Timestamp};
use switchhook_providers::{
    AccountConfig, CallPage, CallSearch, Lookup, LookupAnswer, Period, SearchStep, VerifiedWebhook, derived_call_id,
    discovery_api_request, read_discovery_answer, read_with_notes, reporting_event_ids,
};

use crate::reconciler::{Reconciler, Report, RequestStats, WORK_WINDOW, log_unknown_value};

/// Length of the period that is read at once, and time between two readings.
pub const PERIOD: Duration = Duration::from_secs(60 * 60);
/// Time for which a period overlaps the one before. Together with the inactivity timeout, it is the length of the longest
/// call that is found.
pub const OVERLAP: Duration = Duration::from_secs(3 * 60 * 60);
/// Longest time that discovery looks back: after an interruption, or if it cannot keep up, older calls stay unknown.
pub const LOOK_BACK_MAX: Duration = Duration::from_secs(20 * 60 * 60);
/// Time for which the next page of a period is tried, if it cannot be read. Then the rest of the period is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(3 * 60 * 60);
/// Limit on the pages that a worker reads: about two per second. A period has the calls of four hours, and some lists have ten
/// calls per page. So it is enough for 9,000 calls per hour.
pub const PAGES_MAX: u32 = 60;
/// Lookups of calls that a list only names, after which a worker reads no further page. The page that reaches the limit is still
/// finished if there is time, so a worker sends at most a page more.
const LOOKUPS_MAX: u64 = 100;

impl Reconciler {
    /// Returns the reading of each provider's list that is due, as work for a run that started at `started`. The second value is the first
    /// error.
    pub(crate) async fn lists_due(&self, started: Timestamp) -> (Vec<RepairWork>, Option<Error>) {
        let accounts = self.dial_accounts.current(started).await;
        let discovers = |provider: &Provider| accounts.config(*provider).is_some_and(AccountConfig::discovers);
        let (mut works, mut first_error) = (Vec::new(), None);
        for provider in accounts.named().filter(discovers) {
            match self.inbox.discovery_cursor(provider).await.map(|stored| next_period(stored, self.newest_call())) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    let kind = RepairKind::Discovery(provider);
                    works.push(RepairWork::first(kind, 0, started, started.plus(WORK_WINDOW)));
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        (works, first_error)
    }

    /// Reads the list of a provider, as far as there is time.
    pub(crate) async fn discover(
        &self,
        provider: Provider,
        report: &mut Report,
        stop_at: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let accounts = self.dial_accounts.current(self.clock.now()).await;
        let Some(config) = accounts.config(provider).filter(|config| config.discovers()) else { return Ok(()) };
        let mut requests = RequestStats::default();
        let read = self.discover_at((provider, config), report, &mut requests, stop_at, trace_id).await;
        self.log_requests(provider, &requests, trace_id);
        report.requests.add(requests);
        report.failed += u64::from(read.is_err());
        read
    }

    /// Start of the youngest call that is read. A younger one may still be going on, and its webhooks may still be on their way.
    fn newest_call(&self) -> Timestamp {
        self.clock.now().minus(self.policy.inactivity_timeout)
    }

    async fn discover_at(
        &self,
        (provider, config): (Provider, &AccountConfig),
        report: &mut Report,
        requests: &mut RequestStats,
        stop_at: Timestamp,
        trace_id: &str,
    ) -> Result<(), Error> {
        let stored = self.inbox.discovery_cursor(provider).await?;
        let Some((mut cursor, mut skipped_ms)) = next_period(stored, self.newest_call()) else { return Ok(()) };
        if self.is_time_up(stop_at) {
            report.discovery_postponed = 1;
        }
        let mut lookups = 0;
        for _ in 0..PAGES_MAX {
            if self.is_time_up(stop_at) || lookups >= LOOKUPS_MAX {
                break;
            }
            let period = Period { from: cursor.from, until: cursor.until };
            let Ok(request) = discovery_api_request(provider, config, period, cursor.page.as_deref()) else { break };
            report.lookups += 1;
            let asked_at = self.clock.now();
            let response = self.api.send(provider, request, asked_at).await;
            let now = self.clock.now();
            requests.add_time(now.millis_since(asked_at));
            let page = response.ok().and_then(|response| {
                let (status, body) = (response.status, &response.body);
                read_discovery_answer(provider, config, period, cursor.page.as_deref(), status, body, now)
            });
            let Some(page) = page else {
                requests.failed += 1;
                self.log_unreadable_list(provider, trace_id);
                report.discovery_skipped_ms += self.note_unreadable_page(provider, cursor, now).await?;
                break;
            };
            if cursor.unreadable_since.take().is_some() {
                // Stored now: this run may end before it has finished the page.
                self.inbox.set_discovery_cursor(provider, &cursor).await?;
            }
            for field in &page.unknown_values {
                log_unknown_value(provider, None, field, "asked_again_later", now);
            }
            self.store_unknown(provider, &page, report, trace_id).await?;
            let before = usize::try_from(cursor.handled).unwrap_or(usize::MAX);
            for provider_call_id in page.named.iter().skip(before) {
                if self.is_time_up(stop_at) {
                    // The next worker reads this page again, and goes on behind these calls. Otherwise a page with many calls that get no
                    // usable answer would keep all later ones from being read.
                    if cursor.is_in_progress() {
                        self.inbox.set_discovery_cursor(provider, &cursor).await?;
                        report.discovery_skipped_ms += skipped_ms;
                    }
                    return Ok(());
                }
                cursor.handled += 1;
                if self.is_known(provider, provider_call_id, None).await? {
                    continue;
                }
                report.lookups += 1;
                lookups += 1;
                let Some((webhook, event)) = self.ask_about((provider, config), provider_call_id, requests).await
                else {
                    continue;
                };
                let Some(provider_call_id) = event.provider_call_id.as_deref() else { continue };
                if !self.is_known(provider, provider_call_id, Some(&event.call_id)).await? {
                    report.discovered += u64::from(self.store(provider, &webhook, &event, trace_id).await?);
                }
            }
            (cursor.page, cursor.handled) = (page.next_page, 0);
            self.inbox.set_discovery_cursor(provider, &cursor).await?;
            // Counted once, when the period has begun: a run whose first page fails leaves the cursor where it is.
            report.discovery_skipped_ms += std::mem::take(&mut skipped_ms);
            if cursor.page.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Stores the events of the calls of a page that were unknown before it. A consumer may fold the first event of a call before the
    /// next one is stored.
    ///
    /// **The ending of a call is its last event.** If this function is killed before it, the call is asked about once the inactivity
    /// timeout is over. A call that is known only by its ending would never be asked about.
    ///
    /// If the first event of a call cannot be stored, the next run finds the call unknown, and stores it whole. After that, the others are
    /// stored although one failed: the next run leaves the call alone.
    async fn store_unknown(
        &self,
        provider: Provider,
        page: &CallPage,
        report: &mut Report,
        trace_id: &str,
    ) -> Result<(), Error> {
        let mut known: BTreeMap<&str, bool> = BTreeMap::new();
        let mut stored: BTreeSet<&str> = BTreeSet::new();
        let mut failed: Option<(&str, Error)> = None;
        for (webhook, event) in &page.events {
            let Some(provider_call_id) = event.provider_call_id.as_deref() else { continue };
            if failed.as_ref().is_some_and(|(call, _)| *call != provider_call_id) {
                break;
            }
            let is_known = match known.get(provider_call_id) {
                Some(is_known) => *is_known,
                None => self.is_known(provider, provider_call_id, Some(&event.call_id)).await?,
            };
            known.insert(provider_call_id, is_known);
            if is_known {
                continue;
            }
            match self.store(provider, webhook, event, trace_id).await {
                Ok(is_new) => report.discovered += u64::from(stored.insert(provider_call_id) && is_new),
                Err(error) if !stored.contains(provider_call_id) => return Err(error),
                Err(error) => failed = failed.or(Some((provider_call_id, error))),
            }
        }
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Gives the rest of a period up if its next page has been unreadable for a long time. It must not keep later calls from being read.
    /// The time counts from the first failure of this page, because a period may have so many pages that it is old at the last one.
    ///
    /// Returns the time whose calls are left out, in milliseconds: all that is before the next period. The pages that were read cover a part
    /// of it that is not known, because lists differ in their order.
    async fn note_unreadable_page(
        &self,
        provider: Provider,
        cursor: DiscoveryCursor,
        now: Timestamp,
    ) -> Result<u64, Error> {
        if cursor.page.is_none() {
            return Ok(0);
        }
        let (next, skipped_ms) = match cursor.unreadable_since {
            None => (DiscoveryCursor { unreadable_since: Some(now), ..cursor }, 0),
            Some(since) if since.plus(GIVE_UP_AFTER) <= now => {
                let left_out = cursor.until.minus(OVERLAP).millis_since(cursor.from).max(0);
                (period_cursor(cursor.from, cursor.until), left_out.unsigned_abs())
            }
            Some(_) => return Ok(0),
        };
        self.inbox.set_discovery_cursor(provider, &next).await?;
        Ok(skipped_ms)
    }

    /// Stores and queues an event of a call that is unknown. Returns true if it is new in the inbox. An event that is stored already and
    /// cannot be read is left out, and logged.
    async fn store(
        &self,
        provider: Provider,
        webhook: &VerifiedWebhook,
        event: &ProviderEvent,
        trace_id: &str,
    ) -> Result<bool, Error> {
        let submitted = submit(&self.inbox, &self.queue, &NewEvent::from_lookup(webhook, event, trace_id), event).await;
        let outcome = self.if_readable(&event.event_id, &event.call_id, submitted)?;
        let is_new = matches!(outcome, Some(PutOutcome::Stored));
        let now = self.clock.now();
        if let Some(field) = read_with_notes(webhook, now).1.unknown_value.filter(|_| is_new) {
            log_unknown_value(provider, Some(&event.call_id), field, "read_without_it", now);
        }
        Ok(is_new)
    }

    /// True if Switchhook has an attempt with this provider call id, under the call that an event names or under the derived id. Also
    /// true if an alias leads from that id to an attempt, or if a webhook reported the call. An attempt has one provider call id, and a
    /// call may have two. **A row or an event that exists and cannot be read is known too**, so the calls behind it are found.
    async fn is_known(
        &self,
        provider: Provider,
        provider_call_id: &str,
        named: Option<&CallId>,
    ) -> Result<bool, Error> {
        for call_id in named.cloned().into_iter().chain([CallId::new(derived_call_id(provider, provider_call_id))]) {
            let Resolved { call, alias } = match self.calls.resolve(&call_id).await {
                Ok(resolved) => resolved,
                Err(error) if error.is_unreadable() => return Ok(true),
                Err(error) => return Err(error),
            };
            let is_known = call.is_some_and(|call| {
                call.attempt_records.iter().any(|record| record.provider_call_id.as_deref() == Some(provider_call_id))
            });
            if is_known || alias.is_some() {
                return Ok(true);
            }
        }
        let reports = reporting_event_ids(provider, provider_call_id);
        if reports.is_empty() {
            return Ok(false);
        }
        Ok(!self.inbox.read_at_once(&reports).await?.is_empty())
    }

    /// Asks the provider how a call ended that its list only names. `None` if there is no answer: the periods overlap, so the
    /// call is asked about again.
    async fn ask_about(
        &self,
        (provider, config): (Provider, &AccountConfig),
        provider_call_id: &str,
        requests: &mut RequestStats,
    ) -> Option<(VerifiedWebhook, ProviderEvent)> {
        let derived = derived_call_id(provider, provider_call_id);
        let (call_id, attempt) = (CallId::new(derived.as_str()), AttemptKey::new(derived));
        let lookup = Lookup {
            call_id: &call_id,
            attempt: &attempt,
            provider_call_id: Some(provider_call_id),
            dialled_at: None,
            from: None,
            to: None,
        };
        let search = CallSearch::start(provider, config, lookup).ok()?;
        let asked_at = self.clock.now();
        let response = self.api.send(provider, search.request().clone(), asked_at).await;
        let now = self.clock.now();
        requests.add_time(now.millis_since(asked_at));
        let answer = response.map(|response| search.respond(response.status, &response.body, now));
        match answer {
            Ok(SearchStep::Answer(LookupAnswer::Ended { webhook, event, others: _ })) => Some((webhook, *event)),
            Ok(SearchStep::Answer(LookupAnswer::UnknownValue { field })) => {
                log_unknown_value(provider, Some(&call_id), field, "asked_again_later", now);
                None
            }
            Ok(SearchStep::Answer(
                LookupAnswer::Alive { .. }
                | LookupAnswer::NotFound
                | LookupAnswer::Undecided { .. }
                | LookupAnswer::TooEarly { .. }
                | LookupAnswer::Gone,
            )) => None,
            Ok(SearchStep::Answer(LookupAnswer::RetryLater { .. }) | SearchStep::Ask(_)) | Err(_) => {
                requests.failed += 1;
                None
            }
        }
    }

    fn log_unreadable_list(&self, provider: Provider, trace_id: &str) {
        let decision = Decision {
            function: "reconciler",
            message: "provider's list of calls cannot be read",
            action_taken: "not_discovered",
            provider: Some(provider.as_str()),
            trace_id: Some(trace_id),
            ..Decision::from_error(None)
        };
        decision.log(self.clock.now(), true);
    }
}

/// Returns the cursor from which a list is to be read, up to the call `newest`, and the time that is left out before its period, in
/// milliseconds. `None` if the list is not due.
fn next_period(stored: Option<DiscoveryCursor>, newest: Timestamp) -> Option<(DiscoveryCursor, u64)> {
    match stored {
        Some(cursor) if cursor.is_in_progress() => Some((cursor, 0)),
        Some(cursor) if cursor.until.plus(PERIOD) > newest => None,
        Some(cursor) => {
            let earliest = newest.minus(LOOK_BACK_MAX);
            let skipped_ms = earliest.millis_since(cursor.until).max(0).unsigned_abs();
            Some((period_cursor(cursor.until.minus(OVERLAP).max(earliest), newest), skipped_ms))
        }
        None => Some((period_cursor(newest.minus(PERIOD), newest), 0)),
    }
}

/// Cursor before the first page of a period, and after its last one.
const fn period_cursor(from: Timestamp, until: Timestamp) -> DiscoveryCursor {
    DiscoveryCursor { from, until, page: None, handled: 0, unreadable_since: None }
}
