"""Tests of the sample subscriber: it processes each domain event once, and repeats failed work."""

import importlib.util
import json

import pytest

from harness import ROOT


class Context:
    """Lambda context of an invocation with half a minute left."""

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


class Subscriber:
    """The sample with a fake clock, and with work that can fail."""

    def __init__(self, module):
        self.module = module
        self.work_of_the_sample = module.work
        self.now = 1_000_000.0
        self.done = []
        self.fails = False
        module.time.time = lambda: self.now
        module.work = self.work

    def work(self, detail: dict):
        if self.fails:
            raise RuntimeError("the other system is down")
        self.done.append(detail["id"])

    def receive(self, event_id: str, schema_version: int = 1):
        self.handle({"schema_version": schema_version, "id": event_id, "type": "appointment.confirmed", "appointment_id": "apt_1"})

    def handle(self, detail: dict):
        self.module.handler({"detail": detail}, Context())


@pytest.fixture
def subscriber(cloud, monkeypatch):
    dynamodb, name = cloud.client("dynamodb"), "subscriber-seen"
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    for variable, value in (cloud.environment | {"SEEN_TABLE": name, "RETENTION_DAYS": "44"}).items():
        monkeypatch.setenv(variable, value)
    specification = importlib.util.spec_from_file_location("subscriber", ROOT / "infra" / "subscriber.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    # A new object, so that only the clock of this module is replaced.
    module.time = type("Clock", (), {})
    yield Subscriber(module)
    dynamodb.delete_table(TableName=name)


def test_an_event_that_comes_twice_is_worked_on_once(subscriber):
    for event_id in ("call-1/1", "call-1/2", "call-1/1"):
        subscriber.receive(event_id)
    subscriber.now += 10_000_000
    subscriber.receive("call-1/1")
    assert subscriber.done == ["call-1/1", "call-1/2"]


def test_an_id_is_kept_for_as_long_as_the_stack_keeps_calls(subscriber):
    subscriber.receive("call-1/1")
    item = subscriber.module.table.get_item(Key={"id": "call-1/1"})["Item"]
    assert item["expires_at"] == subscriber.now + 44 * 24 * 3600


def test_work_that_failed_is_done_by_a_later_try(subscriber):
    subscriber.fails = True
    with pytest.raises(RuntimeError):
        subscriber.receive("call-1/1")
    subscriber.fails = False
    # The claim of the first invocation has not expired.
    with pytest.raises(subscriber.module.table.meta.client.exceptions.ConditionalCheckFailedException):
        subscriber.receive("call-1/1")
    assert subscriber.done == []
    subscriber.now += 60
    for _ in range(2):
        subscriber.receive("call-1/1")
    assert subscriber.done == ["call-1/1"]


def test_the_sample_takes_an_event_of_every_type(subscriber, capsys):
    subscriber.module.work = subscriber.work_of_the_sample
    schemas = [json.loads(path.read_text()) for path in sorted((ROOT / "infra" / "events").glob("*.json"))]
    # Two examples may have one id.
    examples = {example["id"]: example for schema in schemas for example in schema["examples"]}
    for example in examples.values():
        subscriber.handle(example)
    assert capsys.readouterr().out.splitlines() == [f"{example['type']} {example['id']}" for example in examples.values()]


def test_an_event_of_an_unknown_version_is_refused_and_can_be_repeated(subscriber):
    with pytest.raises(ValueError, match="unknown schema version: 2"):
        subscriber.receive("call-1/1", schema_version=2)
    assert subscriber.done == []
    subscriber.receive("call-1/1")
    assert subscriber.done == ["call-1/1"]
