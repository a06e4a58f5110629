"""Fixtures: a local AWS endpoint, the stack deployed to it, and what a subscriber of its domain events sees.

SWITCHHOOK_E2E_ENDPOINT names an endpoint that is already running (LocalStack, say); without it MiniStack is started on a
free port of loopback, and ended with everything it started.
"""

import json
import os
import signal

import pytest

from harness import ARCHITECTURE, PROVIDERS, Cloud, Mailbox, deployed, fake_provider, free_port, ministack


def pytest_sessionstart():
    """A polite kill ends the tests as Ctrl-C does: through the fixtures, which end what they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cloud(tmp_path_factory):
    given = os.environ.get("SWITCHHOOK_E2E_ENDPOINT")
    if given:
        yield Cloud(given.rstrip("/"))
        return
    with ministack(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield Cloud(endpoint)


@pytest.fixture(scope="session")
def provider_port():
    return free_port()


@pytest.fixture(scope="session")
def stack(cloud, provider_port):
    """The deployed stack, with the keys of all providers in its secret, and Retell where `provider` will listen."""
    parameters = {
        "Architecture": ARCHITECTURE,
        # Functions in containers may have to reach the endpoint by another name.
        "AwsEndpointUrl": os.environ.get("SWITCHHOOK_E2E_FUNCTION_ENDPOINT", cloud.endpoint),
        # Twenty receives with backoff take hours.
        "MaxReceiveCount": "2",
        # Long enough for every test that is not about silence.
        "InactivityTimeoutSeconds": "15",
        "RetellApiUrl": f"http://127.0.0.1:{provider_port}",
    }
    dial = {"api_key": "test-api-key", "agent_id": "agent_fake", "per_second": 10}
    providers = PROVIDERS | {"retell": PROVIDERS["retell"] | {"dial": dial}}
    with deployed(cloud, parameters) as stack:
        cloud.client("secretsmanager").put_secret_value(SecretId=stack.outputs["SecretArn"], SecretString=json.dumps(providers))
        yield stack


@pytest.fixture(scope="session")
def provider(stack, provider_port, tmp_path_factory):
    if os.environ.get("SWITCHHOOK_E2E_FUNCTION_ENDPOINT"):
        pytest.skip("functions that reach the endpoint by another name do not reach this machine's loopback, where the provider is")
    with fake_provider(stack, provider_port, tmp_path_factory.mktemp("provider")) as provider:
        yield provider


@pytest.fixture(scope="session")
def dlq(cloud, stack):
    return Mailbox(cloud, stack.outputs["EventsDlqUrl"])


@pytest.fixture(scope="session")
def subscriber(cloud, stack):
    """A queue behind a rule on the bus, as a team would set it up, that sees every domain event."""
    name = f"{stack.name}-subscriber"
    sqs, events = cloud.client("sqs"), cloud.client("events")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": arn}],
    }
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(policy)})
    bus = stack.outputs["EventBusName"]
    events.put_rule(Name=name, EventBusName=bus, EventPattern=json.dumps({"source": ["switchhook"]}))
    events.put_targets(Rule=name, EventBusName=bus, Targets=[{"Id": "queue", "Arn": arn}])
    yield Mailbox(cloud, url)
    events.remove_targets(Rule=name, EventBusName=bus, Ids=["queue"])
    events.delete_rule(Name=name, EventBusName=bus)
    sqs.delete_queue(QueueUrl=url)
