"""`switchhook check` on the deployed stack: it passes, names what is wrong, and leaves nothing behind."""

import json
import subprocess
from contextlib import contextmanager

import pytest

from harness import TOOL, wait_for


@pytest.fixture(scope="module")
def check(cloud, stack, tmp_path_factory):
    """Runs the check. Returns its exit status and its report, in which the steps are found by their names."""
    nowhere = str(tmp_path_factory.mktemp("check"))
    environment = cloud.environment | {"XDG_CONFIG_HOME": nowhere, "XDG_STATE_HOME": nowhere}

    def run(*arguments):
        command = [TOOL, "check", "--stack", stack.name, "--json", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
        assert done.stdout, done.stderr
        report = json.loads(done.stdout)
        return done.returncode, report["check_id"], {step["step"]: step for step in report["steps"]}

    return run


def failed(steps: dict) -> list:
    return [name for name, step in steps.items() if step["result"] == "failed"]


def assert_nothing_is_left(cloud, stack, check_id):
    assert stack.call(check_id).status == 404
    assert stack.event_status(f"generic:{check_id}").status == 404
    rules = cloud.client("events").list_rules(EventBusName=stack.outputs["EventBusName"])["Rules"]
    assert [rule["Name"] for rule in rules if check_id in rule["Name"]] == []
    queues = cloud.client("sqs").list_queues(QueueNamePrefix=f"switchhook-{check_id}")
    assert queues.get("QueueUrls", []) == []


@contextmanager
def changed_mapping(cloud, stack, logical_id):
    """Disables an event source for a while."""
    resource = cloud.client("cloudformation").describe_stack_resource(StackName=stack.name, LogicalResourceId=logical_id)
    uuid = resource["StackResourceDetail"]["PhysicalResourceId"]
    client = cloud.client("lambda")
    client.update_event_source_mapping(UUID=uuid, Enabled=False)
    try:
        yield
    finally:
        client.update_event_source_mapping(UUID=uuid, Enabled=True)
        wait_for("the event source is enabled", lambda: client.get_event_source_mapping(UUID=uuid)["State"] == "Enabled")


def test_a_deployed_stack_passes_and_nothing_is_left(cloud, stack, subscriber, check):
    code, check_id, steps = check()
    assert failed(steps) == [], steps
    assert code == 0, steps
    assert steps["subscribers"]["result"] == "passed", steps["subscribers"]
    assert "call.canceled" in steps["domain event"]["text"]
    assert_nothing_is_left(cloud, stack, check_id)
    # Another subscriber sees the events of the call.
    subscriber.expect("the domain event", lambda body: check_id in body and '"call.canceled"' in body)


def test_a_disabled_event_source_is_named_and_the_event_is_removed_later(cloud, stack, check):
    with changed_mapping(cloud, stack, "ConsumerMapping"):
        code, check_id, steps = check("--timeout", "20s")
        assert code == 1
        assert failed(steps) == ["event sources", "fold"], steps
        assert "ConsumerMapping" in steps["event sources"]["text"]
        assert "update-event-source-mapping" in steps["event sources"]["advice"]
        assert f"--clean-up {check_id}" in steps["clean-up"]["advice"]
    wait_for("the event is folded", lambda: stack.call(check_id).status == 200)
    code, _, steps = check("--clean-up", check_id)
    assert code == 0, steps
    assert_nothing_is_left(cloud, stack, check_id)


def test_a_throttled_function_is_named(cloud, stack, check):
    resource = cloud.client("cloudformation").describe_stack_resource(StackName=stack.name, LogicalResourceId="IngressFunction")
    name = resource["StackResourceDetail"]["PhysicalResourceId"]
    client = cloud.client("lambda")
    client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        _, check_id, steps = check("--timeout", "5s")
        assert "functions" in failed(steps)
        assert "IngressFunction has a reserved concurrency of 0" in steps["functions"]["text"]
    finally:
        client.delete_function_concurrency(FunctionName=name)
    assert_nothing_is_left(cloud, stack, check_id)
