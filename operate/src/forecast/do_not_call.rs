//! Numbers that stay on the do-not-call list although a call of their person is forgotten.

use switchhook_domain::{Call, CallId, PhoneNumber};

use super::CONCURRENCY;
use crate::concurrent::concurrently;
use crate::error::Error;
use crate::stack::Stack;

/// Returns the number of the person: the calling number of an inbound call, else the called one.
pub(crate) fn number_of(call: &Call) -> Option<PhoneNumber> {
    call.party().or_else(|| call.to.as_ref().map(PhoneNumber::canonical).filter(|_| call.direction.is_none()))
}

/// Returns the reason why the number of a call stays on the list. `None` if it can be taken off: no call of the number could be dialled.
pub(super) async fn objection(stack: &Stack, call: Option<&Call>) -> Result<Option<String>, Error> {
    let Some(number) = call.and_then(number_of) else { return Ok(None) };
    if !stack.names.settings.index_numbers {
        let reason = "the number stays on the do-not-call list: IndexNumbers is off, so a call that waits for the number would not be found. \
                      DELETE /do-not-call takes it off";
        return Ok(Some(reason.to_owned()));
    }
    let mut pages = stack.calls.by_party(&number);
    while let Some(page) = pages.next().await? {
        let objections = page.items.iter().map(|call_id| objection_of(stack, call_id));
        if let Some(objection) = concurrently(CONCURRENCY, objections).await?.into_iter().flatten().next() {
            return Ok(Some(objection));
        }
    }
    Ok(None)
}

async fn objection_of(stack: &Stack, call_id: &CallId) -> Result<Option<String>, Error> {
    let stays = "the number stays on the do-not-call list";
    match stack.calls.get_call(call_id).await {
        Ok(Some(call)) if !call.has_ended() => Ok(Some(format!(
            "{stays}: the call {call_id} has it, and has not ended. Cancel that call, or wait until it has ended"
        ))),
        Ok(Some(_) | None) => Ok(None),
        Err(error) if error.is_unreadable() => {
            Ok(Some(format!("{stays}: the call {call_id} has it, and may wait: {error}")))
        }
        Err(error) => Err(error.into()),
    }
}
