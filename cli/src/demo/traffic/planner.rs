//! The planner of deliveries. It decides when and how often each report of one call arrives, and adds webhooks that
//! Switchhook must not trust.

use std::collections::BTreeSet;

use fastrand::Rng;

use super::delivery::{Delivery, DeliveryKind, Forgery};
use super::faults::FaultCounts;
use super::senders::Senders;
use crate::demo::script::{Fact, MINUTE, Millis, Provider, Report, SECOND, Script};
use crate::demo::stack_settings::INACTIVITY_TIMEOUT;

/// Largest age of a signed timestamp that Switchhook accepts.
const SIGNATURE_WINDOW: Millis = 5 * MINUTE;

/// The faults with which the webhooks of one call are delivered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultProfile {
    /// Every report arrives once and on time.
    FaultFree,
    /// Each report has a chance of being late or lost.
    Random,
    /// Every report arrives at least twice.
    Repeated,
    /// Every report arrives at least twice, with the same meaning and other bytes.
    Reworded,
    /// One report arrives after a report that was made later.
    OutOfOrder,
    Delayed,
    /// The reports of one ending arrive after the inactivity timeout.
    AfterTimeout,
    Lost,
    /// No report that states an ending arrives.
    EndingLost,
    /// All reports arrive together, in any order.
    Burst,
    Forged(Forgery),
    /// Two providers report the call.
    TwoProviders,
    /// Two providers report the call. The reports of the provider that carries the voice arrive after the others.
    TwoProvidersReversed,
    /// The sender names a call id that belongs to another provider.
    ForeignId,
    /// A report is added whose body was cut off before it was signed.
    Unreadable,
}

/// The profiles that calls take in turn.
const FAULT_PROFILES: [FaultProfile; 22] = [
    FaultProfile::FaultFree,
    FaultProfile::Random,
    FaultProfile::Repeated,
    FaultProfile::OutOfOrder,
    FaultProfile::FaultFree,
    FaultProfile::EndingLost,
    FaultProfile::Random,
    FaultProfile::Forged(Forgery::WrongKey),
    FaultProfile::AfterTimeout,
    FaultProfile::FaultFree,
    FaultProfile::Forged(Forgery::FlippedBit),
    FaultProfile::Random,
    FaultProfile::Delayed,
    FaultProfile::Forged(Forgery::OldRecording),
    FaultProfile::Burst,
    FaultProfile::TwoProviders,
    FaultProfile::Lost,
    FaultProfile::Forged(Forgery::NoSignature),
    FaultProfile::TwoProvidersReversed,
    FaultProfile::Reworded,
    FaultProfile::ForeignId,
    FaultProfile::Unreadable,
];

impl FaultProfile {
    pub(super) fn of_call(call: usize) -> Self {
        FAULT_PROFILES.get(call % FAULT_PROFILES.len()).copied().unwrap_or(Self::Random)
    }

    /// Draws the call of this index. Its script fits this profile.
    pub(super) fn draw_script(self, call: usize, senders: Senders, rng: &mut Rng) -> Script {
        match self {
            Self::TwoProviders | Self::TwoProvidersReversed => Script::draw_two_providers(call, rng),
            Self::ForeignId => Script::draw_with_foreign_id(call, rng),
            Self::FaultFree
            | Self::Random
            | Self::Repeated
            | Self::Reworded
            | Self::OutOfOrder
            | Self::Delayed
            | Self::AfterTimeout
            | Self::Lost
            | Self::EndingLost
            | Self::Burst
            | Self::Forged(_)
            | Self::Unreadable => Script::draw(call, self.providers(senders), rng),
        }
    }

    /// Returns the providers whose calls can have this profile.
    const fn providers(self, senders: Senders) -> &'static [Provider] {
        match self {
            // Some sign no timestamp, so a recorded webhook is accepted as a repeated one. Others have a longer window.
            Self::Forged(Forgery::OldRecording) => match senders {
                Senders::Usual => &[Provider::Retell, Provider::Generic],
                Senders::All => {
                    &[Provider::Retell, Provider::Vapi, Provider::Telnyx, Provider::Vonage, Provider::Generic]
                }
            },
            Self::TwoProviders | Self::TwoProvidersReversed => &[Provider::Twilio, Provider::Retell],
            Self::Reworded | Self::Unreadable | Self::ForeignId => &[Provider::Generic],
            Self::FaultFree
            | Self::Random
            | Self::Repeated
            | Self::OutOfOrder
            | Self::Delayed
            | Self::AfterTimeout
            | Self::Lost
            | Self::EndingLost
            | Self::Burst
            | Self::Forged(Forgery::WrongKey | Forgery::FlippedBit | Forgery::NoSignature) => senders.providers(),
        }
    }
}

/// Returns the deliveries of one call, in no particular order, and counts their faults.
pub(super) fn plan_deliveries(
    call: usize,
    script: &Script,
    profile: FaultProfile,
    rng: Rng,
    faults: &mut FaultCounts,
) -> Vec<Delivery> {
    let mut planner = Planner { call, script, rng, deliveries: Vec::new() };
    planner.plan(profile, faults);
    planner.deliveries
}

struct Planner<'a> {
    call: usize,
    script: &'a Script,
    rng: Rng,
    deliveries: Vec<Delivery>,
}

impl Planner<'_> {
    fn plan(&mut self, profile: FaultProfile, faults: &mut FaultCounts) {
        let mut arrivals = self.arrivals(profile);
        self.ensure_observable(&mut arrivals);
        self.separate_arrivals(&mut arrivals);
        self.count_faults(&arrivals, faults);
        for (index, at) in arrivals.iter().enumerate() {
            let Some(at) = *at else { continue };
            self.push_report(index, at, DeliveryKind::First);
            let is_repeated = match profile {
                FaultProfile::FaultFree => false,
                FaultProfile::Repeated | FaultProfile::Reworded => true,
                FaultProfile::Random
                | FaultProfile::OutOfOrder
                | FaultProfile::Delayed
                | FaultProfile::AfterTimeout
                | FaultProfile::Lost
                | FaultProfile::EndingLost
                | FaultProfile::Burst
                | FaultProfile::Forged(_)
                | FaultProfile::TwoProviders
                | FaultProfile::TwoProvidersReversed
                | FaultProfile::ForeignId
                | FaultProfile::Unreadable => self.rng.u8(..10) == 0,
            };
            if is_repeated {
                self.add_repeat(index, at, profile, faults);
            }
        }
        match profile {
            FaultProfile::Forged(forgery) => self.add_forgeries(forgery, faults),
            FaultProfile::Random if self.rng.u8(..4) == 0 => self.add_forgeries(Forgery::WrongKey, faults),
            FaultProfile::TwoProviders | FaultProfile::TwoProvidersReversed => faults.two_providers += 1,
            FaultProfile::Unreadable => self.add_unreadable(faults),
            FaultProfile::FaultFree
            | FaultProfile::Random
            | FaultProfile::Repeated
            | FaultProfile::Reworded
            | FaultProfile::OutOfOrder
            | FaultProfile::Delayed
            | FaultProfile::AfterTimeout
            | FaultProfile::Lost
            | FaultProfile::EndingLost
            | FaultProfile::Burst
            | FaultProfile::ForeignId => {}
        }
    }

    /// Draws the time at which each report arrives. `None` if it is lost.
    fn arrivals(&mut self, profile: FaultProfile) -> Vec<Option<Millis>> {
        let script = self.script;
        let on_time: Vec<Millis> =
            script.reports.iter().map(|report| report.emitted_at + self.rng.i64(20..400)).collect();
        let mut arrivals: Vec<Option<Millis>> = match profile {
            FaultProfile::FaultFree | FaultProfile::TwoProviders => return on_time.into_iter().map(Some).collect(),
            FaultProfile::TwoProvidersReversed => {
                let last = on_time.iter().max().copied().unwrap_or_default();
                let first = on_time.iter().min().copied().unwrap_or_default();
                let is_held_back = |report: &Report| script.provider_of(report) == Provider::Twilio;
                let held_back_by = last - first + self.rng.i64(SECOND..MINUTE);
                return script
                    .reports
                    .iter()
                    .zip(on_time)
                    .map(|(report, at)| Some(if is_held_back(report) { at + held_back_by } else { at }))
                    .collect();
            }
            FaultProfile::Burst => {
                let last = on_time.iter().max().copied().unwrap_or_default();
                let released_at = last + self.rng.i64(SECOND..MINUTE);
                let mut burst: Vec<Millis> = (released_at..).step_by(1).take(on_time.len()).collect();
                // Two of them arrive in the same millisecond.
                if let [.., before, last] = burst.as_mut_slice() {
                    *last = *before;
                }
                self.rng.shuffle(&mut burst);
                return burst.into_iter().map(Some).collect();
            }
            FaultProfile::Random
            | FaultProfile::Repeated
            | FaultProfile::Reworded
            | FaultProfile::OutOfOrder
            | FaultProfile::Delayed
            | FaultProfile::AfterTimeout
            | FaultProfile::Lost
            | FaultProfile::EndingLost
            | FaultProfile::Forged(_)
            | FaultProfile::ForeignId
            | FaultProfile::Unreadable => on_time.iter().map(|at| self.random_arrival(*at)).collect(),
        };
        let Some(any) = self.any_report(|report| report.is_folded()) else { return arrivals };
        let at = on_time.get(any).copied().unwrap_or_default();
        let mut set = |index: usize, at: Option<Millis>| {
            if let Some(arrival) = arrivals.get_mut(index) {
                *arrival = at;
            }
        };
        match profile {
            FaultProfile::OutOfOrder => {
                let later = on_time.iter().filter(|other| **other > at).min().copied().unwrap_or(at);
                set(any, Some(later + self.rng.i64(SECOND..20 * SECOND)));
            }
            FaultProfile::Delayed => set(any, Some(at + self.draw_delay())),
            FaultProfile::AfterTimeout => {
                // Every report that states the ending of one attempt is late, so that nothing reveals the ending
                // before.
                let attempt = self.any_report(Report::states_ending).and_then(|index| script.reports.get(index));
                for (index, report) in script.reports.iter().enumerate() {
                    if report.states_ending() && attempt.is_some_and(|ended| ended.attempt == report.attempt) {
                        set(index, Some(report.emitted_at + self.draw_delay_after_timeout()));
                    }
                }
            }
            FaultProfile::Lost => set(any, None),
            FaultProfile::EndingLost => {
                for (index, report) in script.reports.iter().enumerate() {
                    if report.states_ending() {
                        set(index, None);
                    }
                }
            }
            FaultProfile::FaultFree
            | FaultProfile::Random
            | FaultProfile::Repeated
            | FaultProfile::Reworded
            | FaultProfile::Burst
            | FaultProfile::Forged(_)
            | FaultProfile::TwoProviders
            | FaultProfile::TwoProvidersReversed
            | FaultProfile::ForeignId
            | FaultProfile::Unreadable => {}
        }
        arrivals
    }

    fn random_arrival(&mut self, on_time: Millis) -> Option<Millis> {
        match self.rng.u8(..100) {
            0..5 => None,
            5..8 => Some(on_time + self.draw_delay_after_timeout()),
            8..20 => Some(on_time + self.draw_delay()),
            _ => Some(on_time),
        }
    }

    fn draw_delay(&mut self) -> Millis {
        match self.rng.u8(..3) {
            0 => self.rng.i64(SECOND..10 * SECOND),
            1 => self.rng.i64(10 * SECOND..MINUTE),
            _ => self.rng.i64(MINUTE..10 * MINUTE),
        }
    }

    fn draw_delay_after_timeout(&mut self) -> Millis {
        INACTIVITY_TIMEOUT + self.rng.i64(3 * MINUTE..20 * MINUTE)
    }

    fn any_report(&mut self, matching: impl Fn(&Report) -> bool) -> Option<usize> {
        let reports = self.script.reports.iter().enumerate();
        let matching: Vec<usize> = reports.filter(|(_, report)| matching(report)).map(|(index, _)| index).collect();
        self.rng.choice(&matching).copied()
    }

    /// Makes sure that Switchhook can learn of the call: at least one report about an attempt arrives, and no planned
    /// retry is reported before it.
    fn ensure_observable(&self, arrivals: &mut [Option<Millis>]) {
        let folded = |index: usize| self.script.reports.get(index).is_some_and(Report::is_folded);
        let is_retry_plan =
            |index: usize| self.script.reports.get(index).is_some_and(|report| report.states(Fact::RetryPlanned));
        let first_arrival = |arrivals: &[Option<Millis>]| {
            let of_attempts = arrivals.iter().enumerate().filter(|(index, _)| folded(*index) && !is_retry_plan(*index));
            of_attempts.filter_map(|(_, at)| *at).min()
        };
        if first_arrival(arrivals).is_none()
            && let Some(first) = (0..arrivals.len()).find(|index| folded(*index) && !is_retry_plan(*index))
            && let (Some(arrival), Some(report)) = (arrivals.get_mut(first), self.script.reports.get(first))
        {
            *arrival = Some(report.emitted_at + 20);
        }
        let first = first_arrival(arrivals);
        for (index, arrival) in arrivals.iter_mut().enumerate() {
            if is_retry_plan(index) && *arrival <= first {
                *arrival = None;
            }
        }
    }

    /// Moves reports apart until at most two of a call arrive in the same millisecond. The oracle tries both orders of
    /// two reports, and does not try the orders of three.
    fn separate_arrivals(&self, arrivals: &mut [Option<Millis>]) {
        let mut occupied: Vec<Millis> = Vec::new();
        for arrival in arrivals.iter_mut().flatten() {
            while occupied.iter().filter(|at| *at == arrival).count() > 1 {
                *arrival += 1;
            }
            occupied.push(*arrival);
        }
    }

    fn count_faults(&self, arrivals: &[Option<Millis>], faults: &mut FaultCounts) {
        let mut times: BTreeSet<Millis> = BTreeSet::new();
        let mut latest = Millis::MIN;
        faults.foreign_ids += u64::from(self.script.foreign_call_id.is_some());
        for (report, arrival) in self.script.reports.iter().zip(arrivals).filter(|(report, _)| report.is_folded()) {
            let Some(at) = *arrival else {
                faults.lost += 1;
                continue;
            };
            faults.out_of_order += u64::from(at < latest);
            latest = latest.max(at);
            faults.simultaneous += u64::from(!times.insert(at));
            if at - report.emitted_at > INACTIVITY_TIMEOUT {
                faults.after_timeout += 1;
            } else if at - report.emitted_at > SECOND {
                faults.delayed += 1;
            }
        }
        for attempt in 0..self.script.attempts.len() {
            let is_reported = self
                .script
                .reports
                .iter()
                .zip(arrivals)
                .any(|(report, arrival)| report.attempt == attempt && report.states_ending() && arrival.is_some());
            faults.endings_lost += u64::from(!is_reported);
        }
    }

    fn push_report(&mut self, index: usize, at: Millis, kind: DeliveryKind) {
        let Some(report) = self.script.reports.get(index) else { return };
        let delivery = self.delivery(report, Some(index), at, kind);
        self.deliveries.push(delivery);
    }

    fn delivery(&mut self, report: &Report, index: Option<usize>, at: Millis, kind: DeliveryKind) -> Delivery {
        Delivery {
            at,
            call: self.call,
            report: index,
            kind,
            provider: self.script.provider_of(report),
            name: report.name.clone(),
            query: report.query.clone(),
            body: report.body.clone(),
            signed_at: at,
            old_key: self.rng.u8(..5) == 0,
            flipped_bit: None,
        }
    }

    fn add_repeat(&mut self, index: usize, at: Millis, profile: FaultProfile, faults: &mut FaultCounts) {
        let later = match self.rng.u8(..4) {
            0 => 0,
            1 => self.rng.i64(1..2 * SECOND),
            2 => self.rng.i64(5 * SECOND..90 * SECOND),
            _ => self.rng.i64(6 * MINUTE..40 * MINUTE),
        };
        let reworded = profile == FaultProfile::Reworded && later > 0;
        self.push_report(index, at + later, if reworded { DeliveryKind::Reworded } else { DeliveryKind::Repeated });
        faults.repeated += 1;
        if reworded && let Some(delivery) = self.deliveries.last_mut() {
            // One more space gives the same JSON in another body.
            delivery.body.push(b' ');
            faults.reworded += 1;
        }
    }

    /// Adds forged reports between the true ones. Forgeries that are not copies of true reports state other endings.
    fn add_forgeries(&mut self, forgery: Forgery, faults: &mut FaultCounts) {
        let reports = match forgery {
            Forgery::WrongKey | Forgery::NoSignature => self.script.false_reports(&mut self.rng),
            Forgery::FlippedBit | Forgery::OldRecording => self.script.reports.clone(),
        };
        for report in &reports {
            let at = report.emitted_at + self.rng.i64(20..2 * MINUTE);
            let mut forged = self.delivery(report, None, at, DeliveryKind::Forged(forgery));
            match forgery {
                Forgery::WrongKey => faults.forged_wrong_key += 1,
                Forgery::NoSignature => faults.forged_no_signature += 1,
                Forgery::FlippedBit => {
                    faults.forged_flipped_bit += 1;
                    // Bit 5 is left out: it turns a lower-case letter into upper case, and %2b and %2B mean the same.
                    let bit = self.rng.choice([0, 1, 2, 3, 4, 6, 7]).unwrap_or_default();
                    forged.flipped_bit = Some(self.rng.usize(..report.body.len().max(1)) * 8 + bit);
                }
                Forgery::OldRecording => {
                    faults.forged_old_recording += 1;
                    forged.at = report.emitted_at + SIGNATURE_WINDOW + self.rng.i64(10 * SECOND..50 * MINUTE);
                    forged.signed_at = report.emitted_at;
                }
            }
            self.deliveries.push(forged);
        }
    }

    fn add_unreadable(&mut self, faults: &mut FaultCounts) {
        let Some(report) = self.script.reports.first() else { return };
        let mut cut = self.delivery(report, None, report.emitted_at + 10, DeliveryKind::Unreadable);
        cut.body.truncate(report.body.len() / 2);
        self.deliveries.push(cut);
        faults.unreadable += 1;
    }
}
