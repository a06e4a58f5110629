//! The row of a placed call tells nothing about an earlier time that happened later.

use super::*;

fn past(call: &Call, time: i64) -> Call {
    call.state_as_of(at(time)).expect("created by then").call
}

/// The reconciler notes that a dial is in doubt, and this write is not an update of the state.
#[test]
fn doubt_is_not_known_before_it_is_noted() {
    let call = dialled(&call_with(RETRY), 10);
    let doubted = call.doubted(at(400)).expect("in doubt");
    assert_eq!(doubted.updated_at, at(10));
    for (time, known) in [(10, 2), (399, 2), (400, 3)] {
        assert_eq!(past(&doubted, time).moves.len(), known, "{time}");
    }
}

#[test]
fn trigger_is_not_known_before_it_was_made() {
    let busy = folded(&dialled(&call_with(RETRY), 10), &reports("1", "1", EventKind::Busy, 20));
    let due = due_at(&busy);
    assert!(due > at(21));
    let triggered = busy.trigger(&POLICY, at(21)).expect("pending").call;
    let again = claimed(&triggered, 22);
    assert_eq!((due_at(&triggered), due_at(&past(&again, 21))), (at(21), at(21)));
    assert_eq!((due_at(&past(&again, 20)), past(&again, 20).manual_trigger), (due, None));
}

#[test]
fn pause_of_a_dial_that_was_not_made_is_not_known_before() {
    let call = call_with(RETRY);
    let returned = claimed(&call, 10).postpone("token", at(500), &POLICY, at(11)).expect("claimed").call;
    let second = claimed(&returned, 500);
    let dial = second.start_dial("token", "dial", Provider::Retell, &POLICY, at(501)).expect("claimed").transition.call;
    let withdrawn = dial.withdraw("dial", at(900), &POLICY, at(502)).expect("not reported").call;
    assert_eq!((due_at(&withdrawn), withdrawn.not_before), (at(900), Some(at(900))));
    let canceled = withdrawn.cancel(&POLICY, at(600)).expect("pending").call;
    assert_eq!((due_at(&past(&canceled, 5)), past(&canceled, 5).not_before), (at(10), None));
    assert_eq!(due_at(&past(&canceled, 550)), at(900));
    // The row holds the latest pause only, so the earlier one is not known any more.
    assert_eq!(past(&canceled, 20).not_before, None);
}

#[test]
fn pause_of_a_claim_that_was_returned_is_not_known_before() {
    let claim = claimed(&call_with(RETRY), 10);
    for returned in [
        claim.postpone("token", at(500), &POLICY, at(11)),
        claim.hold("token", at(500), &POLICY, at(11)),
        claim.await_accounts("token", at(500), &POLICY, at(11)),
    ] {
        let returned = returned.expect("claimed").call;
        assert_eq!((returned.job.as_str(), due_at(&returned)), ("PENDING", at(500)));
        assert_eq!(past(&returned, 5).not_before, None);
        assert_eq!(past(&returned, 12).not_before, Some(at(500)));
    }
    assert_eq!(claim.hold("other", at(500), &POLICY, at(11)), None);
}

/// The call is canceled during the claim, or after the claim has expired.
#[test]
fn claim_of_a_call_that_was_canceled_later_is_known() {
    let claim = claimed(&call_with(RETRY), 10);
    let job = |call: &Call, time| call.state_as_of(at(time)).and_then(|past| past.job).map(|job| job.as_str());
    let canceled = claim.cancel(&POLICY, at(20)).expect("claimed").call;
    assert_eq!(job(&canceled, 15), Some("CLAIMED"));
    let expired = folded(&claim, &claim.claim_expired_event(at(400)).expect("the lease has ended"));
    let canceled = expired.cancel(&POLICY, at(500)).expect("pending").call;
    assert_eq!([job(&canceled, 15), job(&canceled, 450)], [Some("CLAIMED"), Some("PENDING")]);
}

#[test]
fn refusal_of_a_provider_is_not_known_before() {
    let mut call = call_with(RETRY);
    call.plan.as_mut().expect("a placed call has a plan").providers = vec![Provider::Retell, Provider::Vapi];
    let refused = dialled(&call, 10).withdraw("dial", at(900), &POLICY, at(11)).expect("not reported").call;
    assert_eq!(refused.dial_provider(), Some(Provider::Vapi));
    let canceled = refused.cancel(&POLICY, at(20)).expect("pending").call;
    assert_eq!(past(&canceled, 15).dial_provider(), Some(Provider::Vapi));
    assert_eq!(past(&canceled, 9).dial_provider(), Some(Provider::Retell));
}
