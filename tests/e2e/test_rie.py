"""Tests of the built functions with the sample events, in the Lambda runtime interface emulator of the SAM CLI.

`sam local invoke` accepts the same events. The functions use the resources of the deployed stack.
"""

import json
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
import samcli

from harness import ARCHITECTURE, PROVIDERS, ROOT, bootstrap, child_process, free_port, tail, wait_for
from sign import sign_event

EMULATOR = Path(samcli.__file__).parent / "local" / "rapid" / f"aws-lambda-rie-{ARCHITECTURE}"


def sample(name: str) -> dict:
    event = json.loads((ROOT / "events" / f"{name}.json").read_text())
    if name.startswith("ingress-"):
        # Like `make sign`, because the timestamps in the repository are old.
        sign_event(event, PROVIDERS)
    return event


@contextmanager
def emulated(cloud, stack, function: str, folder: Path):
    """Runs a function in the emulator with the environment of the deployed one. Yields a function that invokes it."""
    (deployed,) = [
        each
        for page in cloud.client("lambda").get_paginator("list_functions").paginate()
        for each in page["Functions"]
        if each["FunctionName"].startswith(f"{stack.name}-{function.capitalize()}Function")
    ]
    port = free_port()
    environment = cloud.environment | deployed["Environment"]["Variables"] | {
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_LAMBDA_FUNCTION_NAME": deployed["FunctionName"],
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(deployed["MemorySize"]),
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(deployed["Timeout"]),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
    }
    log = folder / f"{function}.log"
    # fmt: off
    command = [str(EMULATOR), "--runtime-interface-emulator-address", f"127.0.0.1:{port}",
               "--runtime-api-address", f"127.0.0.1:{free_port()}", str(bootstrap(function))]
    # fmt: on
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def invoke(event):
        url = f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations"

        def post():
            try:
                with opener.open(urllib.request.Request(url, data=json.dumps(event).encode()), timeout=30) as answer:
                    return answer.read().decode() or "null"
            except ConnectionRefusedError:
                return None
            except urllib.error.URLError as failure:
                if isinstance(failure.reason, ConnectionRefusedError):
                    return None
                raise

        answer = json.loads(wait_for("the emulator listens", post, seconds=30))
        assert not (isinstance(answer, dict) and "errorType" in answer), f"{answer}\n{tail(log)}"
        return answer

    with child_process(command, log, environment, folder):
        yield invoke


@pytest.mark.parametrize("provider", ["generic", "retell", "twilio"])
def test_ingress_accepts_the_sample_webhook_and_knows_it_again(cloud, stack, tmp_path, provider):
    with emulated(cloud, stack, "ingress", tmp_path) as invoke:
        answers = [invoke(sample(f"ingress-{provider}")) for _ in range(2)]
    assert [answer["statusCode"] for answer in answers] == [200, 200], answers
    assert [json.loads(answer["body"])["status"] for answer in answers] == ["accepted", "already_processed"]


def test_ingress_refuses_the_sample_webhook_when_its_body_was_touched(cloud, stack, tmp_path):
    event = sample("ingress-generic")
    event["body"] = event["body"].replace("completed", "cOmpleted")
    with emulated(cloud, stack, "ingress", tmp_path) as invoke:
        answer = invoke(event)
    assert (answer["statusCode"], json.loads(answer["body"])["error"]) == (401, "invalid_signature")


def test_consumer_folds_the_sample_batch_once(cloud, stack, tmp_path):
    with emulated(cloud, stack, "consumer", tmp_path) as invoke:
        answers = [invoke(sample("consumer-batch")) for _ in range(2)]
    assert answers == [{"batchItemFailures": []}] * 2
    found = stack.call_events("call_sample_batch").json()["events"]
    folded = [(event["event_id"], event["disposition"]) for event in found if event["event_id"].startswith("generic:")]
    assert folded == [("generic:evt_batch_ringing", "applied"), ("generic:evt_batch_in_progress", "applied")]


def test_consumer_gives_back_what_it_cannot_decode(cloud, stack, tmp_path):
    event = sample("consumer-undecodable")
    with emulated(cloud, stack, "consumer", tmp_path) as invoke:
        answer = invoke(event)
    assert answer == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}


def test_api_does_not_know_a_call_that_nobody_reported(cloud, stack, tmp_path):
    event = sample("api-call")
    event["rawQueryString"], event["queryStringParameters"] = "id=never", {"id": "never"}
    with emulated(cloud, stack, "api", tmp_path) as invoke:
        assert invoke(event)["statusCode"] == 404


def test_api_creates_the_sample_call_once(cloud, stack, tmp_path):
    with emulated(cloud, stack, "api", tmp_path) as invoke:
        first, again = (invoke(sample("api-create-call")) for _ in range(2))
    assert [first["statusCode"], again["statusCode"]] == [201, 200], (first, again)
    assert first["body"] == again["body"]
    call_id = json.loads(first["body"])["call_id"]
    canceled = stack.post_action("cancel", call_id)
    assert (canceled.status, canceled.json()["job"]["state"]) == (200, "CANCELED"), canceled


def test_scheduler_runs_on_an_empty_event(cloud, stack, tmp_path):
    with emulated(cloud, stack, "scheduler", tmp_path) as invoke:
        assert invoke(sample("scheduler-tick"))["claimed"] == 0


def test_dialer_takes_claims_that_nobody_made_off_the_queue_and_dials_nobody(cloud, stack, tmp_path):
    with emulated(cloud, stack, "dialer", tmp_path) as invoke:
        assert invoke(sample("dialer-batch")) == {"batchItemFailures": []}
    assert stack.call("call_sample_claimed").status == 404


@pytest.mark.parametrize("event", ["reconciler-tick", "reconciler-drift"])
def test_reconciler_runs_on_what_its_schedules_say(cloud, stack, tmp_path, event):
    with emulated(cloud, stack, "reconciler", tmp_path) as invoke:
        invoke(sample(event))


def test_relay_runs_on_an_empty_batch(cloud, stack, tmp_path):
    with emulated(cloud, stack, "relay", tmp_path) as invoke:
        assert invoke({"Records": []}) in ({"batchItemFailures": []}, {}, None)
