"""Tests of the functions in containers, with `sam local`. `make test-sam-local` runs them, and nothing else does.

The stack is deployed by the commands of docs/deploy.md, so that the page is followed as it is written. MiniStack runs the stack's
other functions meanwhile, so a webhook to a container is folded and announced as usual.
"""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from markdown_it import MarkdownIt

from harness import (
    ARCHITECTURE, CREDENTIALS, FUNCTIONS, PROVIDERS, REGION, ROOT, Answer, Cloud, Mailbox, Stack, base_environment, child_process, free_port, run,
    set_redrive_policy, tail, wait_for,
)  # fmt: skip
from sign import sign
from test_runbook import sections
from test_template import ROUTES, name_of

PAGE = ROOT / "docs" / "deploy.md"
HEADING = "Run functions in containers"
STACK = "switchhook-local"
ENVIRONMENT_FILE = ROOT / ".aws-sam" / "env.json"
EVENTS = ROOT / ".make" / "events"


@pytest.fixture(scope="module")
def steps() -> list[str]:
    """The commands of the page, block by block, with free ports and the architecture of this machine."""
    blocks = [token.content for token in MarkdownIt().parse(sections(PAGE)[HEADING]) if token.type == "code_block"]
    text = "\0".join(blocks).replace("x86_64", ARCHITECTURE)
    for port in ("4566", "3000", "3001"):
        text = text.replace(port, str(free_port()))
    return text.split("\0")


@pytest.fixture(scope="module")
def environment() -> dict:
    bridge = json.loads(run(["ip", "-4", "-json", "address", "show", "docker0"], dict(os.environ), ROOT, seconds=30))
    gateway = bridge[0]["addr_info"][0]["local"]
    # Without credentials and an endpoint: the page sets them. The image is there already, see tools/lambda_image.sh.
    kept = {name: value for name, value in base_environment().items() if name not in CREDENTIALS}
    no_proxy = f"{kept['NO_PROXY']},{gateway}"
    return kept | {"NO_PROXY": no_proxy, "no_proxy": no_proxy, "SAM_SKIP_PULL_IMAGE": "1"}


def shell(commands: str) -> list[str]:
    return ["bash", "-euo", "pipefail", "-c", commands]


@pytest.fixture(scope="module")
def cloud(steps, environment, tmp_path_factory):
    """MiniStack, started as the page says."""
    folder = tmp_path_factory.mktemp("ministack")
    log = folder / "ministack.log"
    quiet = {"SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0", "TMPDIR": str(folder), "STATE_DIR": str(folder / "state")}
    gateway = environment["NO_PROXY"].rsplit(",", 1)[1]
    port = re.search(r"GATEWAY_PORT=(\d+)", steps[0])[1]
    endpoint = f"http://{gateway}:{port}"
    with child_process(shell(steps[0]), log, environment | quiet, ROOT) as process:

        def healthy():
            assert process.poll() is None, tail(log)
            return fetch("GET", f"{endpoint}/_ministack/health") is not None

        wait_for("MiniStack is healthy", healthy, seconds=60)
        yield Cloud(endpoint)


@pytest.fixture(scope="module")
def stack(cloud, steps, environment):
    """The stack, deployed by the commands of the page. Its first command is `make package`, which make has run before these tests."""
    package, _, commands = steps[1].partition("\n")
    assert package.startswith("make package")
    run(shell(commands), environment, ROOT, seconds=300)
    cloudformation = cloud.client("cloudformation")
    described = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
    stack = Stack(cloud, STACK, {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]})
    set_redrive_policy(cloud, stack, "20")
    return stack


@pytest.fixture(scope="module")
def exported(environment, cloud, stack) -> dict:
    """The environment of the terminal in which the stack was deployed."""
    return environment | CREDENTIALS | {"AWS_ENDPOINT_URL": cloud.endpoint}


@pytest.fixture(scope="module")
def subscriber(cloud, stack):
    """A queue that receives every domain event."""
    sqs, events = cloud.client("sqs"), cloud.client("events")
    url = sqs.create_queue(QueueName=f"{STACK}-subscriber")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    bus = stack.outputs["EventBusName"]
    events.put_rule(Name="subscriber", EventBusName=bus, EventPattern=json.dumps({"source": ["switchhook"]}))
    events.put_targets(Rule="subscriber", EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    return Mailbox(cloud, url)


def fetch(method: str, url: str, body: bytes | None = None, headers: dict | None = None) -> Answer | None:
    """Sends a request. Returns None if nobody listens."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return Answer(answer.status, answer.read().decode())
    except urllib.error.HTTPError as refusal:
        return Answer(refusal.code, refusal.read().decode())
    except (ConnectionError, urllib.error.URLError):
        return None


# --- sam local invoke --------------------------------------------------------------------------------------------------


def invoke(function: str, event: str, exported: dict):
    """Invokes a function with an event in a container, and returns its answer."""
    signed = EVENTS / f"{event}.json"
    path = signed if signed.exists() else ROOT / "events" / f"{event}.json"
    # fmt: off
    command = [str(ROOT / ".venv" / "bin" / "sam"), "local", "invoke", name_of(function), "--parameter-overrides", f"Architecture={ARCHITECTURE}",
               "--env-vars", str(ENVIRONMENT_FILE), "--event", str(path)]
    # fmt: on
    done = subprocess.run(command, env=exported, cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout or "null")
    assert not (isinstance(answer, dict) and "errorType" in answer), f"{answer}\n{done.stderr}"
    return answer


def test_the_page_runs_one_function_on_a_signed_webhook(steps, exported):
    done = subprocess.run(shell(steps[2]), env=exported, cwd=ROOT, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["statusCode"], json.loads(answer["body"])["status"]) == (200, "accepted")


@pytest.mark.parametrize("provider", ["generic", "twilio"])
def test_ingress_accepts_the_sample_webhook_and_knows_it_again(exported, provider):
    run(["make", "sign"], exported, ROOT, seconds=30)
    answers = [invoke("ingress", f"ingress-{provider}", exported) for _ in range(2)]
    assert [json.loads(answer["body"])["status"] for answer in answers] == ["accepted", "already_processed"]


def test_consumer_folds_the_sample_batch(stack, exported):
    assert invoke("consumer", "consumer-batch", exported) == {"batchItemFailures": []}
    assert stack.call("call_sample_batch").json()["lifecycle"] == "in_progress"
    (failure,) = invoke("consumer", "consumer-undecodable", exported)["batchItemFailures"]
    assert failure["itemIdentifier"]


def test_relay_publishes_the_sample_record(exported, subscriber):
    assert invoke("relay", "relay-batch", exported) in ({"batchItemFailures": []}, {})
    subscriber.expect("the domain event of the record is on the bus", lambda body: "call_sample_relay" in body)


def test_scheduler_and_reconciler_run(stack, exported):
    assert invoke("scheduler", "scheduler-tick", exported)["claimed"] == 0
    assert "swept_minutes" in invoke("reconciler", "reconciler-tick", exported)
    assert "checked" in invoke("reconciler", "reconciler-drift", exported)


def test_dialer_dials_nobody_for_a_claim_that_nobody_made(stack, exported):
    assert invoke("dialer", "dialer-batch", exported) is None


def test_api_creates_and_shows_a_call(stack, exported):
    created = invoke("api", "api-create-call", exported)
    assert created["statusCode"] in (200, 201), created
    assert stack.call(json.loads(created["body"])["call_id"]).status == 200
    assert invoke("api", "api-call", exported)["statusCode"] in (200, 404)


def test_every_function_has_a_sample_event():
    for function in FUNCTIONS:
        assert list((ROOT / "events").glob(f"{function}-*.json")), function


# --- sam local start-api -----------------------------------------------------------------------------------------------


@contextmanager
def served(block: str, exported: dict, folder: Path, option: str = ""):
    """Runs the first command of a block, which starts a server, as the page says. Yields its URL, the block's other commands, and its log."""
    command, _, others = block.partition("\n")
    port = re.search(r"--port (\d+)", command)[1]
    log = folder / "sam.log"
    with child_process(shell(f"{command} {option}"), log, exported, ROOT) as process:

        def listening():
            assert process.poll() is None, tail(log)
            return fetch("GET", f"http://127.0.0.1:{port}/") is not None

        wait_for("sam local listens", listening, seconds=90)
        yield f"http://127.0.0.1:{port}", others, log


@pytest.fixture(scope="module")
def api(exported, steps, tmp_path_factory):
    # One container per function saves a second per request.
    with served(steps[3], exported, tmp_path_factory.mktemp("api"), "--warm-containers LAZY") as serving:
        yield serving


class Served:
    """Requests to a server of `sam local start-api`."""

    def __init__(self, url: str):
        self.url = url

    def http(self, method: str, path: str, body: dict | None = None, headers: dict | None = None) -> Answer:
        raw = None if body is None else json.dumps(body).encode()
        return fetch(method, self.url + path, raw, {"content-type": "application/json"} | (headers or {}))

    def webhook(self, provider: str, raw: bytes, content_type: str = "application/json", query: str = "", inbound: str = "") -> Answer:
        path = f"/webhooks/{provider}{inbound}{query}"
        headers = sign(provider, PROVIDERS, path, raw) | {"content-type": content_type}
        return fetch("POST", self.url + path, raw, headers)


@pytest.fixture(scope="module")
def gateway(api) -> Served:
    return Served(api[0])


def test_the_commands_beside_the_server_are_as_written(api, exported):
    _, others, log = api
    answer = json.loads(run(shell(others), exported, ROOT, seconds=60))
    assert "calls" in answer, f"{answer}\n{tail(log)}"


def test_signed_webhooks_pass_through_the_gateway_and_are_folded(gateway, stack):
    call_id = f"call-{uuid.uuid4()}"
    ringing = {"event_id": f"evt-{call_id}", "event_type": "call.ringing", "occurred_at": "2026-11-20T12:00:01Z", "call_id": call_id}
    raw = json.dumps(ringing).encode()
    answers = [gateway.webhook("generic", raw), gateway.webhook("generic", raw)]
    assert [(each.status, each.json()["status"]) for each in answers] == [(200, "accepted"), (200, "already_processed")]
    wait_for("the stack folds it", lambda: stack.call(call_id).status == 200, seconds=60)
    assert gateway.http("GET", f"/call?id={call_id}").json()["lifecycle"] == "ringing"

    retell = {"event": "call_ended", "call": {"call_id": f"call_{uuid.uuid4().hex}", "call_status": "ended", "disconnection_reason": "dial_busy"}}
    assert gateway.webhook("retell", json.dumps(retell).encode()).json()["status"] == "accepted"
    form = f"CallSid=CA{uuid.uuid4().hex}&AccountSid=AC0&From=%2B15550199&To=%2B15550100&CallStatus=completed&Direction=outbound-api".encode()
    twilio = gateway.webhook("twilio", form, "application/x-www-form-urlencoded", query="?appointment_id=appt_1")
    assert twilio.json()["status"] == "accepted", twilio
    inbound = gateway.webhook("generic", json.dumps(ringing | {"event_id": f"evt-{uuid.uuid4()}"}).encode(), inbound="/inbound")
    assert inbound.json()["status"] == "accepted", inbound


def test_a_changed_webhook_is_refused_by_the_gateway(gateway):
    raw = b'{"event_id": "evt_changed", "event_type": "call.ringing", "call_id": "call_changed"}'
    headers = sign("generic", PROVIDERS, "/webhooks/generic", raw) | {"content-type": "application/json"}
    answer = fetch("POST", f"{gateway.url}/webhooks/generic", raw.replace(b"ringing", b"rinGing"), headers)
    assert (answer.status, answer.json()["error"]) == (401, "invalid_signature")


def test_every_request_of_the_api_reaches_its_function(gateway):
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    new_call = {"provider": "retell", "from": "+15550199", "to": "+15550100", "due_at": tomorrow, "appointment_id": "apt local"}
    created = gateway.http("POST", "/calls", new_call, {"idempotency-key": uuid.uuid4().hex})
    assert created.status == 201, created
    call_id = quote(created.json()["call_id"], safe="")
    asked = {
        "GET /call": gateway.http("GET", f"/call?id={call_id}"),
        "GET /call/events": gateway.http("GET", f"/call/events?id={call_id}"),
        "GET /calls": gateway.http("GET", "/calls?job=PENDING"),
        "GET /appointment": gateway.http("GET", "/appointment?id=apt%20local"),
        "POST /calls/batch": gateway.http("POST", "/calls/batch", {"calls": [new_call]}),
        "POST /call/cancel": gateway.http("POST", f"/call/cancel?id={call_id}"),
        "PUT /do-not-call": gateway.http("PUT", "/do-not-call?number=%2B15550177"),
        "DELETE /do-not-call": gateway.http("DELETE", "/do-not-call?number=%2B15550177"),
    }
    refused = {
        "POST /call/trigger": gateway.http("POST", f"/call/trigger?id={call_id}"),
        "GET /event/status": gateway.http("GET", "/event/status?id=generic:never"),
    }
    assert {key: answer.status // 100 for key, answer in asked.items()} == dict.fromkeys(asked, 2), asked
    # A canceled call cannot be triggered, and nobody sent that event.
    assert {key: answer.status for key, answer in refused.items()} == {"POST /call/trigger": 409, "GET /event/status": 404}, refused
    assert {*asked, *refused, "POST /calls"} == {key for key, function in ROUTES.items() if function != "ingress"}


# --- sam local start-lambda --------------------------------------------------------------------------------------------


def test_functions_are_invoked_as_lambda_functions(steps, exported, tmp_path):
    with served(steps[4], exported, tmp_path) as (url, others, log):
        assert json.loads(run(shell(others), exported, ROOT, seconds=60))["claimed"] == 0, tail(log)
        client = boto3.client("lambda", endpoint_url=url, region_name=REGION,
                              config=Config(signature_version=UNSIGNED, proxies={}, read_timeout=60, retries={"max_attempts": 0}))  # fmt: skip
        for function, event in [("reconciler", "reconciler-drift"), ("consumer", "consumer-batch"), ("api", "api-call")]:
            payload = (ROOT / "events" / f"{event}.json").read_bytes()
            answer = client.invoke(FunctionName=name_of(function), Payload=payload)
            assert "FunctionError" not in answer, f"{function}\n{tail(log)}"
