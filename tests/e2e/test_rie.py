"""Tests of the built functions with the sample events, in the Lambda runtime interface emulator of the SAM CLI.

`sam local invoke` accepts the same events. The functions use the resources of the deployed stack.
"""

import json
import subprocess

import pytest

from harness import FUNCTIONS, bootstrap
from rie import emulated, sample


@pytest.mark.parametrize("provider", ["generic", "retell", "twilio"])
def test_ingress_accepts_the_sample_webhook_and_knows_it_again(cloud, stack, tmp_path, provider):
    with emulated(cloud, stack, "ingress", bootstrap("ingress"), tmp_path) as invoke:
        answers = [invoke(sample(f"ingress-{provider}")) for _ in range(2)]
    assert [answer["statusCode"] for answer in answers] == [200, 200], answers
    first, again = (json.loads(answer["body"])["status"] for answer in answers)
    # The function repeats a write whose answer comes late, and then finds its own event.
    assert first in ("accepted", "already_processed")
    assert again == "already_processed"


def test_ingress_refuses_the_sample_webhook_when_its_body_was_touched(cloud, stack, tmp_path):
    event = sample("ingress-generic")
    event["body"] = event["body"].replace("completed", "cOmpleted")
    with emulated(cloud, stack, "ingress", bootstrap("ingress"), tmp_path) as invoke:
        answer = invoke(event)
    assert (answer["statusCode"], json.loads(answer["body"])["error"]) == (401, "invalid_signature")


def test_consumer_folds_the_sample_batch_once(cloud, stack, tmp_path):
    with emulated(cloud, stack, "consumer", bootstrap("consumer"), tmp_path) as invoke:
        answers = [invoke(sample("consumer-batch")) for _ in range(2)]
    assert answers == [{"batchItemFailures": []}] * 2
    found = stack.call_events("call_sample_batch").json()["events"]
    folded = [(event["event_id"], event["disposition"]) for event in found if event["event_id"].startswith("generic:")]
    assert folded == [("generic:evt_batch_ringing", "applied"), ("generic:evt_batch_in_progress", "applied")]


def test_consumer_gives_back_what_it_cannot_decode(cloud, stack, tmp_path):
    event = sample("consumer-undecodable")
    with emulated(cloud, stack, "consumer", bootstrap("consumer"), tmp_path) as invoke:
        answer = invoke(event)
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}


def test_api_does_not_know_a_call_that_nobody_reported(cloud, stack, tmp_path):
    event = sample("api-call")
    event["rawQueryString"], event["queryStringParameters"] = "id=never", {"id": "never"}
    with emulated(cloud, stack, "api", bootstrap("api"), tmp_path) as invoke:
        assert invoke(event)["statusCode"] == 404


def test_api_creates_the_sample_call_once(cloud, stack, tmp_path):
    with emulated(cloud, stack, "api", bootstrap("api"), tmp_path) as invoke:
        first, again = (invoke(sample("api-create-call")) for _ in range(2))
    assert [first["statusCode"], again["statusCode"]] == [201, 200], (first, again)
    assert first["body"] == again["body"]
    call_id = json.loads(first["body"])["call_id"]
    canceled = stack.post_action("cancel", call_id)
    assert (canceled.status, canceled.json()["job"]["state"]) == (200, "CANCELED"), canceled


def test_scheduler_runs_on_an_empty_event(cloud, stack, tmp_path):
    with emulated(cloud, stack, "scheduler", bootstrap("scheduler"), tmp_path) as invoke:
        assert invoke(sample("scheduler-tick"))["claimed"] == 0


def test_dialer_takes_claims_that_nobody_made_off_the_queue_and_dials_nobody(cloud, stack, tmp_path):
    with emulated(cloud, stack, "dialer", bootstrap("dialer"), tmp_path) as invoke:
        assert invoke(sample("dialer-batch")) is None
    assert stack.call("call_sample_claimed").status == 404


@pytest.mark.parametrize("event", ["reconciler-tick", "reconciler-drift"])
def test_reconciler_runs_on_what_its_schedules_say(cloud, stack, tmp_path, event):
    with emulated(cloud, stack, "reconciler", bootstrap("reconciler"), tmp_path) as invoke:
        invoke(sample(event))


def test_relay_publishes_the_domain_events_of_the_sample_record(cloud, stack, subscriber, tmp_path):
    with emulated(cloud, stack, "relay", bootstrap("relay"), tmp_path) as invoke:
        assert invoke(sample("relay-batch")) == {"batchItemFailures": []}
    subscriber.expect("the call is announced", lambda body: "call_sample_relay" in body and "call.ringing" in body)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_that_cannot_start_says_why_in_one_line(function):
    done = subprocess.run([bootstrap(function)], env={"STACK_NAME": "switchhook"}, capture_output=True, text=True, timeout=30)
    (line,) = done.stdout.splitlines()
    fields = json.loads(line)
    assert (done.returncode, done.stderr) == (1, "")
    assert (fields["level"], fields["function"], fields["action_taken"]) == ("ERROR", function, "start_failed")
    assert fields["error"].startswith("bad configuration: ") and " is not set" in fields["error"]
