//! Calls that nobody reports. Others place them, and all their webhooks are lost. Only the lists of their providers have them.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use switchhook_domain::{CallId, Provider};
use switchhook_local::fake::{Behaviour, DeliveryFaults};
use tokio::time::sleep;

use crate::calls::Truth;
use crate::final_state::attempts_of;
use crate::law::Law;
use crate::plan::{FAULTS_END, FaultKind};
use crate::requests::truth_of;
use crate::run::TICK;
use crate::sim::{Sim, UnreportedCall};

/// Providers whose lists are read.
const LISTING: [Provider; 9] = [
    Provider::Retell,
    Provider::Twilio,
    Provider::Vapi,
    Provider::Telnyx,
    Provider::ElevenLabs,
    Provider::Plivo,
    Provider::Vonage,
    Provider::Bland,
    Provider::SignalWire,
];
/// Answered calls come first. The list of Retell has no others.
const BEHAVIOURS: [Behaviour; 6] = [
    Behaviour::Confirms,
    Behaviour::Declines,
    Behaviour::Voicemail,
    Behaviour::Busy,
    Behaviour::NoAnswer,
    Behaviour::Fails,
];
const ANSWERED: usize = 3;
/// Time after the start of a run after which no such call begins.
const LAST_BEGINS: Duration = Duration::from_secs(35 * 60);
/// Time after the start of a run by which all of them are found. A list is read every hour. A call whose lookup fails is asked about at the
/// next reading.
const FOUND_BY: Duration = Duration::from_secs(FAULTS_END + 60 * 60).saturating_add(TICK).saturating_add(TICK);

impl Sim {
    /// Lets people call the account, if the plan has calls that nobody reports.
    pub(crate) async fn receive_unreported_calls(self: Rc<Self>) {
        while self.plan.has_fault(FaultKind::UnreportedCalls) {
            sleep(Duration::from_secs(self.random(60..360))).await;
            if self.began.elapsed() > LAST_BEGINS {
                break;
            }
            if self.hit(FaultKind::UnreportedCalls) {
                let provider = LISTING[usize::try_from(self.random(0..LISTING.len() as u64)).unwrap()];
                let count = if provider == Provider::Retell { ANSWERED } else { BEHAVIOURS.len() };
                let behaviour = BEHAVIOURS[usize::try_from(self.random(0..count as u64)).unwrap()];
                self.receive_unreported_call(provider, behaviour);
            }
        }
    }

    fn receive_unreported_call(&self, provider: Provider, behaviour: Behaviour) {
        let fake = self.world.cloud.fake();
        fake.set_delivery_faults(DeliveryFaults::ALL_LOST);
        let id = fake.receive_call(provider, "+447700900123", "+442079460018", behaviour);
        fake.set_delivery_faults(DeliveryFaults::NONE);
        let call_id = format!("{provider}:{id}");
        self.trace(&format!("nobody reports {call_id}, {behaviour:?}"));
        self.unreported.borrow_mut().push(UnreportedCall { provider, call_id, behaviour });
    }

    /// True if each call that nobody reports is found, or should have been.
    pub(crate) fn is_discovery_over(&self) -> bool {
        let calls = &self.observed.borrow().calls;
        let is_found = |call: &UnreportedCall| calls.contains_key(&CallId::new(call.call_id.as_str()));
        self.began.elapsed() >= FOUND_BY || self.unreported.borrow().iter().all(is_found)
    }

    /// Checks that each call that nobody reports was found, with its true end.
    pub(crate) async fn check_unreported_calls(&self) {
        let unreported = self.unreported.borrow().clone();
        for call in unreported {
            if !self.observed.borrow().calls.contains_key(&CallId::new(call.call_id.as_str())) {
                self.state().report_violation(Law::Discovered, format!("nobody found {call:?}"));
                continue;
            }
            let shown = self.shown(&call.call_id).await;
            let (attempts, truth) = (attempts_of(&shown), truth_of(call.behaviour, call.provider.as_str()));
            // Bland tells that a voicemail answered only if the call was placed with `answered_by_enabled`.
            let is_untold = call.provider == Provider::Bland && call.behaviour == Behaviour::Voicemail;
            let truth = if is_untold { Truth { outcome: "connected", ..truth } } else { truth };
            if attempts != [truth] {
                self.state()
                    .report_violation(Law::Discovered, format!("{call:?} is shown as {attempts:?}, and was {truth:?}"));
            }
            self.state().result.verified_calls += 1;
        }
    }

    /// Checks that no call of the plan is shown as two. Every row is a call of the plan, or a phone call whose dial got no answer. Nobody
    /// knows that such a phone call is the dialled one.
    pub(crate) fn check_no_call_is_double(&self) {
        let observed = self.observed.borrow();
        let known_ids: BTreeSet<&str> = (observed.calls.values())
            .filter(|call| call.plan.is_some())
            .flat_map(|call| &call.attempt_records)
            .filter_map(|record| record.provider_call_id.as_deref())
            .collect();
        for dial in self.world.cloud.fake().dials() {
            let other = CallId::new(format!("{}:{}", dial.provider, dial.provider_call_id));
            if known_ids.contains(dial.provider_call_id.as_str()) && observed.calls.contains_key(&other) {
                self.state()
                    .report_violation(Law::Discovered, format!("{other} is the dial {dial:?}, and a call of its own"));
            }
        }
    }
}
