"""Domain events reach a receiver outside AWS: the values of infra/forward.yaml on a local EventBridge, which posts to the samples.

The CloudFormation of MiniStack does not know connections and API destinations, but its EventBridge does. It does not repeat what
failed, so the retries and the dead-letter queue are tested in the template alone (test_edge.py).
"""

import json
import re

import pytest

from harness import wait_for
from test_deployed import new_call_id, webhook
from test_edge import forward
from test_receiver import KEY, SAMPLES, running


@pytest.fixture
def forwarding(cloud, stack):
    """Returns a function that makes the rule and its target as the template says, with these parameters."""
    events, made = cloud.client("events"), []

    def make(**parameters: str):
        names = {"StackName": f"{stack.name}-{len(made)}", "EventBusName": stack.outputs["EventBusName"], **parameters}

        def value(node):
            match node:
                case {"Ref": name}:
                    return names[name]
                case {"Fn::Sub": text}:
                    return re.sub(r"\$\{(\w+)\}", lambda found: names[found[1]], text)
                case {"Fn::If": ["HasEventTypes", types, _]}:
                    return value(types)
                case {"Fn::GetAtt": [name, "Arn"]} if name in names:
                    return names[name]
                case dict():
                    return {key: value(each) for key, each in node.items()}
                case list():
                    return [value(each) for each in node]
            return node

        def arguments(resource: str, *left_out: str) -> dict:
            return {key: value(each) for key, each in forward(resource).items() if key not in left_out}

        names["Connection"] = events.create_connection(**arguments("Connection"))["ConnectionArn"]
        names["Destination"] = events.create_api_destination(**arguments("Destination"))["ApiDestinationArn"]
        rule = arguments("ForwardRule", "Targets")
        events.put_rule(**rule | {"EventPattern": json.dumps(rule["EventPattern"])})
        (target,) = forward("ForwardRule")["Targets"]
        target = {key: value(each) for key, each in target.items() if key not in ("RoleArn", "DeadLetterConfig")}
        answer = events.put_targets(Rule=rule["Name"], EventBusName=rule["EventBusName"], Targets=[target])
        assert answer["FailedEntryCount"] == 0, answer
        made.append((rule, target, value(forward("Connection")["Name"]), value(forward("Destination")["Name"])))

    yield make
    for rule, target, connection, destination in made:
        events.remove_targets(Rule=rule["Name"], EventBusName=rule["EventBusName"], Ids=[target["Id"]])
        events.delete_rule(Name=rule["Name"], EventBusName=rule["EventBusName"])
        events.delete_api_destination(Name=destination)
        events.delete_connection(Name=connection)


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_webhook_becomes_a_domain_event_at_the_receiver(stack, subscriber, forwarding, tmp_path, sample):
    call_id, appointment = new_call_id(), f"apt-{new_call_id()}"
    with running(sample, tmp_path, KEY_HEADER="x-api-key") as receiver:
        forwarding(Url=receiver.url, KeyHeader="x-api-key", Key=KEY, RatePerSecond=50, EventTypes=["appointment.confirmed"])
        answer = stack.post_signed("generic", webhook("USER_CONFIRMED", 1, call_id, appointment_id=appointment))
        assert answer.status == 200, answer
        wait_for("the event arrives", receiver.done, seconds=60)
        # The local stream delivers a record again if it is slow, so the event may be on the bus twice.
        on_the_bus, *_ = subscriber.expect("the event is published", lambda body: call_id in body and '"appointment.confirmed"' in body)
        detail = json.loads(on_the_bus)["detail"]
        assert receiver.done() == [detail["id"]]
        (stored,) = wait_for("it is done", lambda: list((tmp_path / "events" / "done").iterdir()))
        assert json.loads(stored.read_bytes()) == detail
