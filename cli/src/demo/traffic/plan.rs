//! How the reports of one call are delivered.

use std::collections::BTreeSet;

use fastrand::Rng;
use serde_json::json;

use super::{Delivered, Delivery, Forgery, PATIENCE, Troubles, WINDOW};
use crate::demo::script::{Fact, Keyed, MINUTE, Millis, Report, SECOND, Script, Vendor};

/// The kinds of trouble that calls get in turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Theme {
    Untroubled,
    ByChance,
    Repeated,
    Reworded,
    Reordered,
    Delayed,
    TooLate,
    Lost,
    EndingLost,
    Burst,
    Forged(Forgery),
    Claimed,
    Unreadable,
}

const THEMES: [Theme; 20] = [
    Theme::Untroubled,
    Theme::ByChance,
    Theme::Repeated,
    Theme::Reordered,
    Theme::Untroubled,
    Theme::EndingLost,
    Theme::ByChance,
    Theme::Forged(Forgery::WrongKey),
    Theme::TooLate,
    Theme::Untroubled,
    Theme::Forged(Forgery::FlippedBit),
    Theme::ByChance,
    Theme::Delayed,
    Theme::Forged(Forgery::Stale),
    Theme::Burst,
    Theme::Claimed,
    Theme::Lost,
    Theme::Forged(Forgery::NoSignature),
    Theme::Reworded,
    Theme::Unreadable,
];

impl Theme {
    pub(super) fn of(call: usize) -> Self {
        THEMES.get(call % THEMES.len()).copied().unwrap_or(Self::ByChance)
    }

    /// The vendors with which it can be made.
    pub(super) const fn vendors(self) -> &'static [Vendor] {
        match self {
            // Twilio signs no timestamp: of its webhooks a recorded one is a repeated one.
            Self::Forged(Forgery::Stale) => &[Vendor::Retell, Vendor::Generic],
            Self::Claimed => &[Vendor::Retell, Vendor::Twilio],
            Self::Reworded | Self::Unreadable => &[Vendor::Generic],
            Self::Untroubled
            | Self::ByChance
            | Self::Repeated
            | Self::Reordered
            | Self::Delayed
            | Self::TooLate
            | Self::Lost
            | Self::EndingLost
            | Self::Burst
            | Self::Forged(Forgery::WrongKey | Forgery::FlippedBit | Forgery::NoSignature) => {
                &[Vendor::Retell, Vendor::Twilio, Vendor::Generic]
            }
        }
    }
}

/// The deliveries of one call, in no particular order.
pub(super) fn deliver(call: usize, script: &Script, theme: Theme, rng: Rng, troubles: &mut Troubles) -> Vec<Delivery> {
    let mut plan = Plan { call, script, rng, deliveries: Vec::new() };
    plan.deliver(theme, troubles);
    plan.deliveries
}

/// Them in the making.
struct Plan<'a> {
    call: usize,
    script: &'a Script,
    rng: Rng,
    deliveries: Vec<Delivery>,
}

impl Plan<'_> {
    fn deliver(&mut self, theme: Theme, troubles: &mut Troubles) {
        let mut arrivals = self.arrivals(theme);
        self.ensure_observable(&mut arrivals);
        self.keep_apart(&mut arrivals);
        self.count(&arrivals, troubles);
        for (index, at) in arrivals.iter().enumerate() {
            let Some(at) = *at else { continue };
            self.push_report(index, at, Delivered::Once);
            let again = match theme {
                Theme::Untroubled => false,
                Theme::Repeated | Theme::Reworded => true,
                Theme::ByChance
                | Theme::Reordered
                | Theme::Delayed
                | Theme::TooLate
                | Theme::Lost
                | Theme::EndingLost
                | Theme::Burst
                | Theme::Forged(_)
                | Theme::Claimed
                | Theme::Unreadable => self.rng.u8(..10) == 0,
            };
            if again {
                self.repeat(index, at, theme, troubles);
            }
        }
        match theme {
            Theme::Forged(forgery) => self.forge(forgery, troubles),
            Theme::ByChance if self.rng.u8(..4) == 0 => self.forge(Forgery::WrongKey, troubles),
            Theme::Claimed => self.claim(&arrivals, troubles),
            Theme::Unreadable => self.garble(troubles),
            Theme::Untroubled
            | Theme::ByChance
            | Theme::Repeated
            | Theme::Reworded
            | Theme::Reordered
            | Theme::Delayed
            | Theme::TooLate
            | Theme::Lost
            | Theme::EndingLost
            | Theme::Burst => {}
        }
    }

    /// When each report comes, if it does.
    fn arrivals(&mut self, theme: Theme) -> Vec<Option<Millis>> {
        let script = self.script;
        let prompt: Vec<Millis> =
            script.reports.iter().map(|report| report.emitted_at + self.rng.i64(20..400)).collect();
        let mut arrivals: Vec<Option<Millis>> = match theme {
            Theme::Untroubled => return prompt.into_iter().map(Some).collect(),
            Theme::Burst => {
                let last = prompt.iter().max().copied().unwrap_or_default();
                let released_at = last + self.rng.i64(SECOND..MINUTE);
                let mut burst: Vec<Millis> = (released_at..).step_by(1).take(prompt.len()).collect();
                // Two of them at the very same moment.
                if let [.., before, last] = burst.as_mut_slice() {
                    *last = *before;
                }
                self.rng.shuffle(&mut burst);
                return burst.into_iter().map(Some).collect();
            }
            Theme::ByChance
            | Theme::Repeated
            | Theme::Reworded
            | Theme::Reordered
            | Theme::Delayed
            | Theme::TooLate
            | Theme::Lost
            | Theme::EndingLost
            | Theme::Forged(_)
            | Theme::Claimed
            | Theme::Unreadable => prompt.iter().map(|at| self.by_chance(*at)).collect(),
        };
        let Some(any) = self.any_report(|report| report.is_folded()) else { return arrivals };
        let at = prompt.get(any).copied().unwrap_or_default();
        let mut set = |index: usize, at: Option<Millis>| {
            if let Some(arrival) = arrivals.get_mut(index) {
                *arrival = at;
            }
        };
        match theme {
            Theme::Reordered => {
                let later = prompt.iter().filter(|other| **other > at).min().copied().unwrap_or(at);
                set(any, Some(later + self.rng.i64(SECOND..20 * SECOND)));
            }
            Theme::Delayed => set(any, Some(at + self.delay())),
            Theme::TooLate => {
                // Everything that tells the ending of one attempt: until then nobody can know it.
                let attempt = self.any_report(Report::says_ending).and_then(|index| script.reports.get(index));
                for (index, report) in script.reports.iter().enumerate() {
                    if report.says_ending() && attempt.is_some_and(|ended| ended.attempt == report.attempt) {
                        set(index, Some(report.emitted_at + self.too_late()));
                    }
                }
            }
            Theme::Lost => set(any, None),
            Theme::EndingLost => {
                for (index, report) in script.reports.iter().enumerate() {
                    if report.says_ending() {
                        set(index, None);
                    }
                }
            }
            Theme::Untroubled
            | Theme::ByChance
            | Theme::Repeated
            | Theme::Reworded
            | Theme::Burst
            | Theme::Forged(_)
            | Theme::Claimed
            | Theme::Unreadable => {}
        }
        arrivals
    }

    fn by_chance(&mut self, prompt: Millis) -> Option<Millis> {
        match self.rng.u8(..100) {
            0..5 => None,
            5..8 => Some(prompt + self.too_late()),
            8..20 => Some(prompt + self.delay()),
            _ => Some(prompt),
        }
    }

    fn delay(&mut self) -> Millis {
        match self.rng.u8(..3) {
            0 => self.rng.i64(SECOND..10 * SECOND),
            1 => self.rng.i64(10 * SECOND..MINUTE),
            _ => self.rng.i64(MINUTE..10 * MINUTE),
        }
    }

    fn too_late(&mut self) -> Millis {
        PATIENCE + self.rng.i64(3 * MINUTE..20 * MINUTE)
    }

    fn any_report(&mut self, matching: impl Fn(&Report) -> bool) -> Option<usize> {
        let reports = self.script.reports.iter().enumerate();
        let matching: Vec<usize> = reports.filter(|(_, report)| matching(report)).map(|(index, _)| index).collect();
        self.rng.choice(&matching).copied()
    }

    /// Of a call of which nothing comes nobody can know, and of a plan to retry only who has heard of what failed.
    fn ensure_observable(&self, arrivals: &mut [Option<Millis>]) {
        let folded = |index: usize| self.script.reports.get(index).is_some_and(Report::is_folded);
        let plans = |index: usize| self.script.reports.get(index).is_some_and(|report| report.says(Fact::RetryPlanned));
        let heard = |arrivals: &[Option<Millis>]| {
            let known = arrivals.iter().enumerate().filter(|(index, _)| folded(*index) && !plans(*index));
            known.filter_map(|(_, at)| *at).min()
        };
        if heard(arrivals).is_none()
            && let Some(first) = (0..arrivals.len()).find(|index| folded(*index) && !plans(*index))
            && let (Some(arrival), Some(report)) = (arrivals.get_mut(first), self.script.reports.get(first))
        {
            *arrival = Some(report.emitted_at + 20);
        }
        let first = heard(arrivals);
        for (index, arrival) in arrivals.iter_mut().enumerate() {
            if plans(index) && *arrival <= first {
                *arrival = None;
            }
        }
    }

    /// No third report of a call at the same moment: of two it can be seen that either came first.
    fn keep_apart(&self, arrivals: &mut [Option<Millis>]) {
        let mut taken: Vec<Millis> = Vec::new();
        for arrival in arrivals.iter_mut().flatten() {
            while taken.iter().filter(|at| *at == arrival).count() > 1 {
                *arrival += 1;
            }
            taken.push(*arrival);
        }
    }

    fn count(&self, arrivals: &[Option<Millis>], troubles: &mut Troubles) {
        let mut moments: BTreeSet<Millis> = BTreeSet::new();
        let mut latest = Millis::MIN;
        for (report, arrival) in self.script.reports.iter().zip(arrivals).filter(|(report, _)| report.is_folded()) {
            let Some(at) = *arrival else {
                troubles.lost += 1;
                continue;
            };
            troubles.reordered += u64::from(at < latest);
            latest = latest.max(at);
            troubles.simultaneous += u64::from(!moments.insert(at));
            if at - report.emitted_at > PATIENCE {
                troubles.too_late += 1;
            } else if at - report.emitted_at > SECOND {
                troubles.delayed += 1;
            }
        }
        for attempt in 0..self.script.attempts.len() {
            let told = self
                .script
                .reports
                .iter()
                .zip(arrivals)
                .any(|(report, arrival)| report.attempt == attempt && report.says_ending() && arrival.is_some());
            troubles.endings_lost += u64::from(!told);
        }
    }

    fn push_report(&mut self, index: usize, at: Millis, how: Delivered) {
        let Some(report) = self.script.reports.get(index) else { return };
        let delivery = self.delivery(report, Some(index), at, how);
        self.deliveries.push(delivery);
    }

    fn delivery(&mut self, report: &Report, index: Option<usize>, at: Millis, how: Delivered) -> Delivery {
        Delivery {
            at,
            call: self.call,
            report: index,
            how,
            vendor: self.script.vendor,
            name: report.name.clone(),
            query: report.query.clone(),
            body: report.body.clone(),
            signed_at: at,
            old_key: self.rng.u8(..5) == 0,
            flipped_bit: None,
        }
    }

    fn repeat(&mut self, index: usize, at: Millis, theme: Theme, troubles: &mut Troubles) {
        let later = match self.rng.u8(..4) {
            0 => 0,
            1 => self.rng.i64(1..2 * SECOND),
            2 => self.rng.i64(5 * SECOND..90 * SECOND),
            _ => self.rng.i64(6 * MINUTE..40 * MINUTE),
        };
        let reworded = theme == Theme::Reworded && later > 0;
        self.push_report(index, at + later, if reworded { Delivered::Reworded } else { Delivered::Again });
        troubles.repeated += 1;
        if reworded && let Some(delivery) = self.deliveries.last_mut() {
            // The same JSON with one more space is another body.
            delivery.body.push(b' ');
            troubles.reworded += 1;
        }
    }

    /// Forges every report that the call might have made had it gone otherwise, in the middle of the true ones.
    fn forge(&mut self, forgery: Forgery, troubles: &mut Troubles) {
        let reports = match forgery {
            Forgery::WrongKey | Forgery::NoSignature => self.script.lies(&mut self.rng),
            Forgery::FlippedBit | Forgery::Stale => self.script.reports.clone(),
        };
        for report in &reports {
            let at = report.emitted_at + self.rng.i64(20..2 * MINUTE);
            let mut forged = self.delivery(report, None, at, Delivered::Forged(forgery));
            match forgery {
                Forgery::WrongKey => troubles.wrong_key += 1,
                Forgery::NoSignature => troubles.no_signature += 1,
                Forgery::FlippedBit => {
                    troubles.flipped_bit += 1;
                    // Not the bit that tells small letters from large ones: %2b and %2B are the same form.
                    let bit = self.rng.choice([0, 1, 2, 3, 4, 6, 7]).unwrap_or_default();
                    forged.flipped_bit = Some(self.rng.usize(..report.body.len().max(1)) * 8 + bit);
                }
                Forgery::Stale => {
                    troubles.stale_timestamp += 1;
                    forged.at = report.emitted_at + WINDOW + self.rng.i64(10 * SECOND..50 * MINUTE);
                    forged.signed_at = report.emitted_at;
                }
            }
            self.deliveries.push(forged);
        }
    }

    /// The generic provider, which is authentic, says of another provider's call what suits it.
    fn claim(&mut self, arrivals: &[Option<Millis>], troubles: &mut Troubles) {
        let heard = self.script.reports.iter().zip(arrivals).filter(|(report, _)| report.is_folded());
        let Some(first) = heard.filter_map(|(_, at)| *at).min() else { return };
        let claim = self.rng.choice(["USER_DECLINED", "USER_CONFIRMED", "ENDED", "CANCELED"]).unwrap_or("ENDED");
        let (field, id) = match (self.script.keyed, &self.script.appointment_id) {
            (Keyed::Appointment, Some(appointment_id)) => ("appointment_id", appointment_id),
            (Keyed::Appointment | Keyed::OurId | Keyed::VendorId, _) => ("call_id", &self.script.call_id),
        };
        let event_id = format!("evt_claim_{:04}", self.call);
        let event = json!({"event_id": event_id, "type": claim, "call": {"sid": "line-0"}, field: id});
        let at = first + self.rng.i64(SECOND..MINUTE);
        self.deliveries.push(Delivery {
            at,
            call: self.call,
            report: None,
            how: Delivered::Claimed,
            vendor: Vendor::Generic,
            name: "claim".to_owned(),
            query: String::new(),
            body: event.to_string().into_bytes(),
            signed_at: at,
            old_key: false,
            flipped_bit: None,
        });
        troubles.claimed += 1;
    }

    /// A report that was cut off on its way into the signer.
    fn garble(&mut self, troubles: &mut Troubles) {
        let Some(report) = self.script.reports.first() else { return };
        let mut cut = self.delivery(report, None, report.emitted_at + 10, Delivered::Unreadable);
        cut.body.truncate(report.body.len() / 2);
        self.deliveries.push(cut);
        troubles.unreadable += 1;
    }
}
