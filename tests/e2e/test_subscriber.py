"""The sample subscriber takes each domain event once, and again what failed."""

import importlib.util

import pytest

from harness import ROOT


class Context:
    """An invocation with half a minute left."""

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


class Subscriber:
    """The sample, with a clock of its own and work that can fail."""

    def __init__(self, module):
        self.module = module
        self.now = 1_000_000.0
        self.done = []
        self.fails = False
        module.time.time = lambda: self.now
        module.work = self.work

    def work(self, detail: dict):
        if self.fails:
            raise RuntimeError("the other side is down")
        self.done.append(detail["id"])

    def receive(self, event_id: str):
        self.module.handler({"detail": {"id": event_id, "type": "appointment.confirmed", "appointment_id": "apt_1"}}, Context())


@pytest.fixture
def subscriber(cloud, monkeypatch):
    dynamodb, name = cloud.client("dynamodb"), "subscriber-seen"
    dynamodb.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    for variable, value in (cloud.environment | {"SEEN_TABLE": name}).items():
        monkeypatch.setenv(variable, value)
    specification = importlib.util.spec_from_file_location("subscriber", ROOT / "infra" / "subscriber.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    # Its own, so that nobody else's clock stands still.
    module.time = type("Clock", (), {})
    yield Subscriber(module)
    dynamodb.delete_table(TableName=name)


def test_an_event_that_comes_twice_is_worked_on_once(subscriber):
    for event_id in ("call-1/1", "call-1/2", "call-1/1"):
        subscriber.receive(event_id)
    subscriber.now += 10_000_000
    subscriber.receive("call-1/1")
    assert subscriber.done == ["call-1/1", "call-1/2"]


def test_work_that_failed_is_done_by_a_later_try(subscriber):
    subscriber.fails = True
    with pytest.raises(RuntimeError):
        subscriber.receive("call-1/1")
    subscriber.fails = False
    # For all it knows the first is still at it.
    with pytest.raises(subscriber.module.table.meta.client.exceptions.ConditionalCheckFailedException):
        subscriber.receive("call-1/1")
    assert subscriber.done == []
    subscriber.now += 60
    for _ in range(2):
        subscriber.receive("call-1/1")
    assert subscriber.done == ["call-1/1"]
