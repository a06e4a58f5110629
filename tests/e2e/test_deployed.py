"""Tests of the deployed stack over HTTP, in the roles of providers and operators."""

import json
import time
import uuid
from urllib.parse import urlencode

import pytest

from harness import PROVIDERS, wait_for
from sign import sign, sign_generic

JSON = {"content-type": "application/json"}


# Ingress repeats a write whose answer comes late, and then finds its own event.
FOUND = "already_processed"
# Statuses of the answer to a new webhook.
NEW = ("accepted", FOUND)


def webhook(event_type: str, second: int, call_id: str, **more) -> dict:
    """Returns the body of a webhook of the generic provider."""
    return {
        "event_id": f"evt-{uuid.uuid4()}",
        "event_type": event_type,
        "occurred_at": f"2026-11-20T12:00:{second:02}Z",
        "call_id": call_id,
        "call": {"sid": f"sid-{call_id}", "to": "+15550100", "from": "+15550199", "direction": "outbound"},
    } | more


def new_call_id() -> str:
    return f"call-{uuid.uuid4()}"


def lifecycle_of(stack, call_id: str) -> str | None:
    answer = stack.call(call_id)
    return answer.json()["lifecycle"] if answer.status == 200 else None


def announcements(subscriber, call_id: str, last: str) -> list | None:
    """Returns the types of the domain events of a call in order, or None if `last` has not arrived yet.

    An event may arrive twice, but its content must not differ.
    """
    by_id = {}
    for event in map(json.loads, subscriber.matching(lambda body: call_id in body)):
        detail = event["detail"]
        assert by_id.setdefault(detail["id"], detail) == detail
    details = sorted(by_id.values(), key=lambda detail: detail["sequence"])
    types = [detail["type"] for detail in details]
    return types if last in types else None


# --- answers of ingress ----------------------------------------------------------------------------------------------


def test_a_new_webhook_is_accepted_and_a_repeat_is_known(stack):
    body = webhook("call.ringing", 1, new_call_id())

    first = stack.post_signed("generic", body)
    again = stack.post_signed("generic", body)

    assert first.status == 200 and first.json()["status"] in NEW, first
    assert (again.status, again.json()["status"]) == (200, "already_processed"), again
    assert again.json()["event_id"] == first.json()["event_id"]


def test_a_webhook_signed_with_a_key_that_is_not_ours_is_refused(stack):
    raw = json.dumps(webhook("call.ringing", 1, new_call_id())).encode()
    answer = stack.post("generic", raw, sign_generic("another key", raw, int(time.time())) | JSON)
    assert (answer.status, answer.json()["error"]) == (401, "invalid_signature"), answer


def test_a_changed_body_is_refused(stack):
    raw = json.dumps(webhook("call.ringing", 1, new_call_id())).encode()
    headers = sign("generic", PROVIDERS, "/webhooks/generic", raw)
    answer = stack.post("generic", raw.replace(b"ringing", b"rinGing"), headers | JSON)
    assert (answer.status, answer.json()["error"]) == (401, "invalid_signature"), answer


def test_an_old_signature_is_refused(stack):
    raw = json.dumps(webhook("call.ringing", 1, new_call_id())).encode()
    headers = sign("generic", PROVIDERS, "/webhooks/generic", raw, int(time.time()) - 600)
    answer = stack.post("generic", raw, headers | JSON)
    assert (answer.status, answer.json()["error"]) == (401, "invalid_signature"), answer


def test_a_missing_signature_is_refused(stack):
    answer = stack.post("generic", b"{}", JSON)
    assert (answer.status, answer.json()["error"]) == (401, "invalid_signature"), answer


def test_a_provider_without_keys_is_unknown(stack):
    answer = stack.post("vonage", b"{}", JSON)
    assert (answer.status, answer.json()["error"]) == (404, "unknown_provider"), answer


def test_an_event_type_that_nobody_knows_is_recorded(stack):
    answer = stack.post_signed("generic", {"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": {"amount": 2000}}})
    assert answer.status == 200 and answer.json()["status"] in ("recorded", FOUND), answer


# --- state of calls --------------------------------------------------------------------------------------------------


def test_a_call_delivered_backwards_ends_completed_and_is_announced_in_order(stack, subscriber):
    call_id = new_call_id()
    events = [webhook("call.ringing", 1, call_id), webhook("call.in_progress", 2, call_id), webhook("call.completed", 3, call_id)]

    answers = [stack.post_signed("generic", event) for event in reversed(events)]
    assert all(answer.json()["status"] in NEW for answer in answers), answers

    wait_for("the call is completed", lambda: lifecycle_of(stack, call_id) == "completed", seconds=60)

    def timeline():
        found = [event for event in stack.call_events(call_id).json()["events"] if not event["implied"]]
        return len(found) == 3 and found

    dispositions = [event["disposition"] for event in wait_for("all three events are in the timeline", timeline)]
    assert dispositions == ["applied"] * 3

    announced = wait_for("call.completed is on the bus", lambda: announcements(subscriber, call_id, "call.completed"), seconds=60)
    types_of_call = [event_type for event_type in announced if event_type.startswith("call.")]
    assert types_of_call == ["call.initiated", "call.ringing", "call.in_progress", "call.completed"]


def test_the_status_of_an_event_says_what_became_of_it(stack):
    call_id = new_call_id()
    event_id = stack.post_signed("generic", webhook("call.ringing", 1, call_id)).json()["event_id"]

    def applied():
        answer = stack.event_status(event_id)
        return answer.status == 200 and answer.json()["disposition"] == "applied" and answer.json()

    status = wait_for("the event is applied", applied, seconds=60)
    assert (status["event_id"], status["call_id"]) == (event_id, call_id)


def test_a_retell_call_and_a_twilio_call_reach_their_ends(stack):
    retell_id, twilio_id = f"call_{uuid.uuid4().hex}", f"CA{uuid.uuid4().hex}"
    retell = {"event": "call_ended", "call": {"call_id": retell_id, "call_status": "not_connected", "disconnection_reason": "dial_busy", "end_timestamp": 1795176000000}}
    form = urlencode(
        {
            "CallSid": twilio_id,
            "AccountSid": f"AC{uuid.uuid4().hex}",
            "From": "+15550199",
            "To": "+15550100",
            "CallStatus": "completed",
            "Direction": "outbound-api",
            "Timestamp": "Fri, 20 Nov 2026 12:00:00 +0000",
            "CallbackSource": "call-progress-events",
            "SequenceNumber": "3",
        }
    ).encode()

    assert stack.post_signed("retell", retell).json()["status"] in NEW
    twilio = stack.post_signed("twilio", form, query="?from=switchhook", content_type="application/x-www-form-urlencoded")
    assert twilio.json()["status"] in NEW, twilio

    wait_for("the Retell call is busy", lambda: lifecycle_of(stack, f"retell:{retell_id}") == "busy", seconds=60)
    wait_for("the Twilio call is completed", lambda: lifecycle_of(stack, f"twilio:{twilio_id}") == "completed", seconds=60)


def test_a_call_that_nobody_reported_is_unknown(stack):
    assert stack.call(new_call_id()).status == 404
    assert stack.event_status("generic:never-sent").status == 404


# --- webhooks and messages that cannot be processed ------------------------------------------------------------------


def test_a_webhook_that_cannot_be_read_is_kept_and_reported_once(stack, dlq, subscriber):
    marker = uuid.uuid4().hex
    body = b'{"not json ' + marker.encode()

    first = stack.post_signed("generic", body)
    again = stack.post_signed("generic", body)

    assert first.status == 200 and first.json()["status"] in ("quarantined", FOUND), first
    assert again.status == 200, again
    event_id = first.json()["event_id"]
    assert len(dlq.expect("the quarantined webhook is in the dead-letter queue", lambda message: event_id in message)) == 1
    published = subscriber.expect("webhook.quarantined is on the bus", lambda body: event_id in body and "webhook.quarantined" in body)
    assert marker not in "".join(published)


def test_a_message_that_cannot_be_decoded_is_moved_to_the_dead_letter_queue(cloud, stack, dlq):
    marker = f"not a message of ours {uuid.uuid4()}"
    cloud.client("sqs").send_message(
        QueueUrl=stack.outputs["EventsQueueUrl"], MessageBody=marker, MessageGroupId="poison", MessageDeduplicationId=str(uuid.uuid4())
    )
    dlq.expect("the message was received twice and moved", lambda message: marker in message, seconds=150)


# --- schedules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "schedules"),
    [("SchedulerFunctionName", [("rate(1 minute)", {})]), ("ReconcilerFunctionName", [("rate(1 hour)", {"run": "drift"}), ("rate(1 minute)", {})])],
)
def test_what_is_scheduled_runs_by_hand(cloud, stack, output, schedules):
    function = stack.outputs[output]
    scheduler = cloud.client("scheduler")
    ours = [each for each in scheduler.list_schedules()["Schedules"] if each["Target"]["Arn"].endswith(f":function:{function}")]
    found = [scheduler.get_schedule(Name=each["Name"]) for each in ours]
    assert sorted((each["ScheduleExpression"], json.loads(each["Target"]["Input"])) for each in found) == schedules

    for _, payload in schedules:
        stack.invoke(output, payload)


def test_a_call_that_falls_silent_is_settled_as_inconclusive(stack, subscriber):
    call_id = new_call_id()
    assert stack.post_signed("generic", webhook("call.ringing", 1, call_id)).json()["status"] in NEW
    wait_for("the call is ringing", lambda: lifecycle_of(stack, call_id) == "ringing", seconds=60)

    def settled():
        # The schedule does this every minute. A run before the inactivity timeout does nothing.
        stack.invoke("ReconcilerFunctionName")
        return lifecycle_of(stack, call_id) == "inconclusive"

    wait_for("the call is inconclusive", settled, seconds=90, every=3)
    subscriber.expect("call.inconclusive is on the bus", lambda body: call_id in body and "call.inconclusive" in body)
