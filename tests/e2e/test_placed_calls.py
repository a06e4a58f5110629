"""Tests of calls that the deployed stack places, at a fake provider whose calls take as long as real ones."""

import uuid
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from harness import wait_for
from test_deployed import announcements

# A call rings for up to 12 s, lasts for up to 90 s, and is analysed within 6 s. A retry takes as long.
CALL_SECONDS = 240


def new_call(behaviour: str, **more) -> dict:
    """Returns the body of a call to a person with this behaviour: one word per attempt, separated by commas."""
    body = {"provider": "retell", "from": "+15550100", "to": "+15550190", "appointment_id": f"apt-{uuid.uuid4()}"}
    return body | {"metadata": {"fake": behaviour}} | more


def create(stack, body: dict) -> str:
    answer = stack.create(body)
    # The local gateway may invoke the function a second time. The same content within five minutes is the same call.
    assert answer.status in (200, 201), answer
    return answer.json()["call_id"]


def in_an_hour() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job_of(stack, call_id: str) -> str:
    return stack.call(call_id).json()["job"]["state"]


def settled(stack, call_id: str) -> dict:
    """Waits until the call is settled and returns it. Meanwhile invokes the scheduled functions every few seconds."""

    def is_settled():
        stack.invoke("SchedulerFunctionName")
        stack.invoke("ReconcilerFunctionName")
        call = stack.call(call_id).json()
        return call["settled"] and call

    return wait_for(f"{call_id} is settled", is_settled, seconds=CALL_SECONDS, every=3)


@pytest.fixture(scope="module")
def placed(stack, provider, subscriber):
    """Calls that run at the same time, by the behaviour of the person."""
    bodies = {
        "confirms": new_call("confirms"),
        "busy,confirms": new_call("busy,confirms", retry={"attempts_max": 2, "delay_seconds": 1}),
        "silent": new_call("silent"),
        "response_lost": new_call("response_lost"),
        "invalid": new_call("invalid"),
    }
    calls = {behaviour: (create(stack, body), body["appointment_id"]) for behaviour, body in bodies.items()}
    # Each call is due, so the stream of the calls table has it claimed at once.
    return calls


def test_a_call_that_is_created_is_dialled_once_and_settled_by_its_webhooks(stack, provider, subscriber, placed):
    call_id, appointment_id = placed["confirms"]

    call = settled(stack, call_id)

    assert (call["job"]["state"], call["appointment_status"], call["lifecycle"], call["outcome"]) == ("COMPLETED", "Confirmed", "completed", "confirmed")
    assert [dial["attempt"] for dial in provider.dials(call_id)] == ["1"]
    shown = stack.http("GET", f"/appointment?id={quote(appointment_id, safe='')}").json()
    assert (shown["status"], [each["call_id"] for each in shown["calls"]]) == ("Confirmed", [call_id])
    announced = wait_for("the appointment is announced", lambda: announcements(subscriber, call_id, "appointment.confirmed"), seconds=60)
    assert announced[0] == "call.initiated"
    assert {"call.in_progress", "call.completed", "appointment.dialing", "appointment.confirmed"} <= set(announced)
    webhooks = [event["event_id"] for event in stack.call_events(call_id).json()["events"] if event["event_id"].startswith("retell:")]
    assert webhooks, "no webhook found its call"


def test_a_call_that_is_busy_is_tried_again(stack, provider, subscriber, placed):
    call_id, _ = placed["busy,confirms"]

    call = settled(stack, call_id)

    assert (call["job"]["state"], call["appointment_status"]) == ("COMPLETED", "Confirmed")
    assert [attempt["lifecycle"] for attempt in call["attempts"]] == ["busy", "completed"]
    first, second = provider.dials(call_id)
    assert [first["attempt"], second["attempt"]] == ["1", "2"]
    assert first["ended_ms"] < second["started_ms"]
    announced = wait_for("the appointment is announced", lambda: announcements(subscriber, call_id, "appointment.confirmed"), seconds=60)
    assert {"call.busy", "call.retry_scheduled", "appointment.retrying"} <= set(announced)


def test_a_call_whose_webhooks_are_lost_is_settled_by_asking_its_provider(stack, provider, subscriber, placed):
    call_id, _ = placed["silent"]

    call = settled(stack, call_id)

    assert (call["job"]["state"], call["appointment_status"], call["lifecycle"]) == ("COMPLETED", "Confirmed", "completed")
    assert len(provider.dials(call_id)) == 1
    wait_for("the appointment is announced", lambda: announcements(subscriber, call_id, "appointment.confirmed"), seconds=60)


def test_a_dial_whose_answer_is_lost_is_not_dialled_again(stack, provider, placed):
    call_id, _ = placed["response_lost"]
    call = settled(stack, call_id)
    assert (call["job"]["state"], call["appointment_status"]) == ("COMPLETED", "Confirmed")
    assert len(provider.dials(call_id)) == 1


def test_a_call_that_the_provider_refuses_for_good_fails_and_rings_nowhere(stack, provider, subscriber, placed):
    call_id, _ = placed["invalid"]
    call = settled(stack, call_id)
    # A dial that the provider rejected is no attempt.
    assert (call["job"], call["attempts"]) == ({"state": "FAILED", "stop_reason": "rejected_by_provider"}, [])
    assert provider.dials(call_id) == []
    wait_for("its end is announced", lambda: announcements(subscriber, call_id, "call.exhausted"), seconds=60)


def test_a_call_that_is_not_due_waits_until_somebody_triggers_it_and_once_is_all(stack, provider):
    call_id = create(stack, new_call("busy", due_at=in_an_hour(), retry={"attempts_max": 1}))
    stack.invoke("SchedulerFunctionName")
    assert job_of(stack, call_id) == "PENDING"

    first, again = stack.post_action("trigger", call_id), stack.post_action("trigger", call_id)

    assert (first.status, first.json()) == (200, {"call_id": call_id, "job": {"state": "CLAIMED"}}), first
    assert again.status == 409, again
    wait_for("the phone rings", lambda: provider.dials(call_id), seconds=60)
    assert settled(stack, call_id)["job"]["state"] == "FAILED"
    assert len(provider.dials(call_id)) == 1


def test_a_call_that_nobody_created_cannot_be_triggered_or_canceled(stack):
    unknown = f"call-{uuid.uuid4()}"
    assert [stack.post_action(action, unknown).status for action in ("trigger", "cancel")] == [404, 404]


def test_a_canceled_call_is_never_dialled(stack, provider, subscriber):
    call_id = create(stack, new_call("confirms", due_at=in_an_hour()))

    canceled = stack.post_action("cancel", call_id)

    assert (canceled.status, canceled.json()["job"]["state"]) == (200, "CANCELED"), canceled
    assert stack.post_action("trigger", call_id).status == 409
    stack.invoke("SchedulerFunctionName")
    assert job_of(stack, call_id) == "CANCELED"
    wait_for("its end is announced", lambda: announcements(subscriber, call_id, "call.canceled"), seconds=60)
    assert provider.dials(call_id) == []


def test_the_same_request_creates_one_call(stack):
    key, body = uuid.uuid4().hex, new_call("confirms", due_at=in_an_hour())
    first, again, other = stack.create(body, key), stack.create(body, key), stack.create(body | {"to": "+15550191"}, key)
    # The emulated gateway invokes a function again if its process ended before it answered. Then the first answer is a repetition too.
    assert first.status in (200, 201) and again.status == 200, (first, again)
    assert first.json() == again.json()
    assert other.status == 409, other
    listed = stack.http("GET", "/calls?job=PENDING").json()["calls"]
    assert [call["call_id"] for call in listed].count(first.json()["call_id"]) == 1


def test_a_number_on_the_do_not_call_list_is_not_called(stack, provider):
    number = "+15550177"
    path = f"/do-not-call?number={quote(number, safe='')}"
    assert stack.http("PUT", path).status == 204
    call_id = create(stack, new_call("confirms", to=number))

    call = settled(stack, call_id)

    assert call["job"]["state"] == "FAILED"
    assert provider.dials(call_id) == []
    assert stack.http("DELETE", path).status == 204
    # The failed call stays failed, and a new call is placed.
    again = create(stack, new_call("busy", to=number, retry={"attempts_max": 1}))
    assert settled(stack, again)["lifecycle"] == "busy"
    assert len(provider.dials(again)) == 1


def test_nobody_was_rung_twice(provider, placed):
    assert placed and provider.statistics()["duplicate_dials"] == 0
