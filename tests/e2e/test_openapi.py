"""Checks that the API answers as infra/openapi.yaml describes, for generated requests and for the requests of a real call.

The tests use `switchhook dev`, which runs the same handlers on the loopback interface, without a deployed stack.
"""

import json
import re
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
import schemathesis
from sign import sign

from harness import PROVIDERS, ROOT, TOOL, base_environment, child_process, tail, wait_for

DOCUMENT = ROOT / "infra" / "openapi.yaml"
SETTINGS = ROOT / "infra" / "schemathesis.toml"
SECONDS_MAX = 180
# The generated requests depend only on this seed and on the version in requirements.txt.
SEED = 20260101
EXAMPLES = 60
# A run with fewer cases has not reached the operations, and must fail.
CASES_MIN = 500


@contextmanager
def dev_stack(folder: Path):
    """Runs a local stack on a free port, with test keys, the fake provider and a schedule of one second. Yields its URL."""
    if not TOOL.is_file():
        raise FileNotFoundError(f"{TOOL} is missing; build it with: make provider")
    providers = PROVIDERS | {"retell": PROVIDERS["retell"] | {"dial": {"api_key": "key_of_the_e2e_tests"}}}
    keys = folder / "providers.json"
    keys.write_text(json.dumps(providers))
    log = folder / "dev.log"
    command = [str(TOOL), "dev", "--port", "0", "--tick", "1s", "--delivery-faults", "none", "--seed", "7", "--providers", str(keys),
               "--dial-rates", "retell=20"]
    with child_process(command, log, base_environment(), folder) as process:

        def address():
            if process.poll() is not None:
                raise RuntimeError(f"the local stack exited with code {process.returncode}:\n{tail(log)}")
            return re.search(r"listening on (http://127\.0\.0\.1:\d+)", log.read_text())

        yield wait_for("the local stack listens", address)[1]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with dev_stack(tmp_path_factory.mktemp("dev")) as url:
        yield url


@pytest.fixture
def url_of_this_test(tmp_path):
    """A stack of its own: calls to made-up numbers may make the provider busy."""
    with dev_stack(tmp_path) as url:
        yield url


def test_nothing_that_schemathesis_makes_up_is_answered_otherwise_than_described(url_of_this_test, tmp_path):
    report = tmp_path / "report.json"
    # fmt: off
    command = [str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(SETTINGS),
               "run", str(DOCUMENT), "--url", url_of_this_test, "--mode", "all",
               "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(EXAMPLES), "--seed", str(SEED),
               "--continue-on-failure", "--no-color", "--report", "json", "--report-json-path", str(report)]
    # fmt: on
    done = subprocess.run(
        command, env=base_environment(), cwd=tmp_path, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout[-20_000:]
    results = json.loads(report.read_text())
    assert results["operations"]["tested"] == results["operations"]["total"] == 11
    assert {phase["status"] for phase in results["phases"].values()} == {"success"} and len(results["phases"]) == 4
    assert results["test_cases"]["generated"] >= CASES_MIN, results["test_cases"]
    assert results["test_cases"]["with_failures"] == results["test_cases"]["errored"] == 0


class Client:
    """Client of the API that validates each answer against the document."""

    def __init__(self, url: str):
        self.url = url
        self.document = schemathesis.openapi.from_path(DOCUMENT)
        self.session = requests.Session()
        self.session.trust_env = False

    def ask(self, method: str, path: str, status: int, body=None, key: str | None = None, **query):
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.session.request(method, self.url + path, json=body, headers=headers, params=query, timeout=10)
        assert answer.status_code == status, answer.text
        self.document[path][method].validate_response(answer)
        return answer.json() if answer.content else None

    def call(self, call_id: str):
        return self.ask("GET", "/call", 200, id=call_id)


@pytest.fixture
def client(url):
    return Client(url)


def new_call(behaviour: str, **more) -> dict:
    return {"provider": "retell", "from": "+15550100", "to": "+15550190", "metadata": {"fake": behaviour}} | more


def in_a_day() -> str:
    return (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_answers_about_a_call_that_was_placed_are_as_described(client):
    body = new_call("busy", appointment_id="apt openapi/1", retry={"attempts_max": 2, "delay_seconds": 0})
    created = client.ask("POST", "/calls", 201, body, key="openapi-1")
    assert client.ask("POST", "/calls", 200, body, key="openapi-1") == created
    client.ask("POST", "/calls", 409, body | {"to": "+15550191"}, key="openapi-1")
    call_id = created["call_id"]

    wait_for("the call is settled", lambda: client.call(call_id)["settled"], seconds=60, every=1)
    call = client.call(call_id)
    assert (call["job"]["state"], [attempt["lifecycle"] for attempt in call["attempts"]]) == ("FAILED", ["busy", "busy"])

    def shown_alike():
        # A webhook that comes after the ending may change the row between two answers.
        call = client.call(call_id)
        of_appointment = client.ask("GET", "/appointment", 200, id="apt openapi/1")["calls"]
        return of_appointment == [call] and call in client.ask("GET", "/calls", 200, job="FAILED", lifecycle="busy", limit="100")["calls"]

    wait_for("every route shows the call alike", shown_alike)
    events = client.ask("GET", "/call/events", 200, id=call_id)["events"]
    assert {"initiated", "ringing", "busy"} <= {event["kind"] for event in events}
    for event in events:
        # An implied event has no status of its own, only the event that implies it.
        if not event["implied"]:
            status = client.ask("GET", "/event/status", 200, id=event["event_id"])
            assert (status["status"], status["call_id"]) == ("processed", call_id)
    client.ask("POST", "/call/cancel", 409, id=call_id)
    client.ask("POST", "/call/trigger", 409, id=call_id)


def test_answers_about_a_call_that_waits_are_as_described(client):
    window = {"time_zone": "Europe/London", "opens": "09:00", "closes": "18:00", "days": ["mon", "fri"]}
    far = client.ask("POST", "/calls", 201, new_call("confirms", window=window, due_at=in_a_day()))["call_id"]
    assert client.call(far)["job"]["state"] == "PENDING"
    canceled = client.ask("POST", "/call/cancel", 200, id=far)
    assert (canceled["job"], canceled["settled"]) == ({"state": "CANCELED", "stop_reason": "canceled_by_user"}, True)

    near = client.ask("POST", "/calls", 201, new_call("forgotten", due_at=in_a_day()))["call_id"]
    client.ask("POST", "/call/trigger", 200, id=near)
    wait_for("it is dialled", lambda: client.call(near)["job"]["state"] == "IN_PROGRESS", seconds=20, every=0.2)
    assert client.call(near)["attempts"][0]["ended_at"] is None
    stopped = client.ask("POST", "/call/cancel", 202, id=near)
    assert stopped["job"] == {"state": "IN_PROGRESS", "stop_reason": "canceled_by_user"}

    client.ask("PUT", "/do-not-call", 204, number="+15550177")
    blocked = client.ask("POST", "/calls", 201, new_call("confirms", to="+15550177"))["call_id"]
    wait_for("it is given up", lambda: client.call(blocked)["settled"], seconds=20, every=0.2)
    assert client.call(blocked)["job"] == {"state": "FAILED", "stop_reason": "do_not_call"}
    client.ask("DELETE", "/do-not-call", 204, number="+15550177")


def test_answers_about_events_that_no_call_has_are_as_described(client):
    def post(body: bytes) -> str:
        headers = sign("generic", PROVIDERS, "/webhooks/generic", body) | {"content-type": "application/json"}
        answer = client.session.post(f"{client.url}/webhooks/generic", data=body, headers=headers, timeout=10)
        assert answer.status_code == 200, answer.text
        return answer.json()["event_id"]

    def status(event_id: str) -> str:
        return client.ask("GET", "/event/status", 200, id=event_id)["status"]

    assert status(post(b"{")) == "quarantined"
    assert status(post(b'{"event_id": "openapi-2", "event_type": "SOMETHING_ELSE", "call_id": "c"}')) == "recorded"
