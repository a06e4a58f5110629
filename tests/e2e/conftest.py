"""Fixtures: a local AWS endpoint, the stack deployed to it, and a subscriber of its domain events.

SWITCHHOOK_E2E_DIST is the folder of a release, which the tests use in place of what was built here (`make test-dist`).

SWITCHHOOK_E2E_ENDPOINT is the URL of an endpoint that is already running, for example LocalStack. Without it, the tests start MiniStack
on a free port of the loopback interface, and stop it with all its processes at the end.

SWITCHHOOK_E2E_SAM_LOCAL=1 adds the tests of test_sam_local.py, which run the functions in containers (`make test-sam-local`).
"""

import json
import os
import signal

import pytest

from harness import ARCHITECTURE, DIST, PROVIDERS, Cloud, Mailbox, deployed, fake_provider, free_port, ministack


# Without a release there is nothing that this module could test.
collect_ignore = [] if DIST else ["test_dist.py"]
# These tests need Docker.
collect_ignore += [] if os.environ.get("SWITCHHOOK_E2E_SAM_LOCAL") else ["test_sam_local.py"]


def pytest_sessionstart():
    """Handles SIGTERM like Ctrl-C, so that the fixtures stop the processes that they started."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def cloud(tmp_path_factory):
    endpoint = os.environ.get("SWITCHHOOK_E2E_ENDPOINT")
    if endpoint:
        yield Cloud(endpoint.rstrip("/"))
        return
    with ministack(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield Cloud(endpoint)


@pytest.fixture(scope="session")
def provider_port():
    return free_port()


@pytest.fixture(scope="session")
def stack(cloud, provider_port):
    """The deployed stack. Its secrets have the keys of all providers, and an account of Retell. Its Retell URL is the port of the fixture `provider`."""
    parameters = {
        "Architecture": ARCHITECTURE,
        # Functions in containers may need another URL for the endpoint.
        "AwsEndpointUrl": os.environ.get("SWITCHHOOK_E2E_FUNCTION_ENDPOINT", cloud.endpoint),
        # The default, 20 receives with backoff, takes hours.
        "MaxReceiveCount": "2",
        # Long enough for all tests except those of the timeout itself.
        "InactivityTimeoutSeconds": "15",
        "ProviderApiUrl": f"http://127.0.0.1:{provider_port}",
        "DialRates": "retell=10",
    }
    accounts = {"retell": {"dial": {"api_key": "test-api-key-of-retell", "agent_id": "agent_fake"}}}
    with deployed(cloud, parameters) as stack:
        secrets = cloud.client("secretsmanager")
        for output, half in (("WebhookKeysSecretArn", PROVIDERS), ("DialAccountsSecretArn", accounts)):
            secrets.put_secret_value(SecretId=stack.outputs[output], SecretString=json.dumps(half))
        yield stack


@pytest.fixture(scope="session")
def provider(stack, provider_port, tmp_path_factory):
    if os.environ.get("SWITCHHOOK_E2E_FUNCTION_ENDPOINT"):
        pytest.skip("the functions need another URL for the endpoint, so they cannot reach the provider on the loopback interface")
    with fake_provider(stack, provider_port, tmp_path_factory.mktemp("provider")) as provider:
        yield provider


@pytest.fixture(scope="session")
def dlq(cloud, stack):
    return Mailbox(cloud, stack.outputs["EventsDlqUrl"])


@pytest.fixture(scope="session")
def subscriber(cloud, stack):
    """A queue that receives every domain event through a rule on the bus."""
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
