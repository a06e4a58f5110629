"""Every request to an AWS service is valid by the model of that service, and each function may send its requests and no others.

Two sources of requests: the Rust tests record those of the local cloud (`make test-rust`, tests/src/recorded.rs). Here, a proxy
records what each built function sends when it starts, and what the operators' commands send.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from harness import FUNCTIONS, ROOT, TOOL, Cloud, bootstrap
from recorder import recorder
from rie import emulated, sample
from service_models import Request, check_shape, model_of
from test_template import RESOURCES, as_list, name_of, properties, statements

RECORDS = Path(os.environ.get("SWITCHHOOK_REQUESTS", ROOT / ".make" / "requests"))
# Fewer requests mean that the recording is broken.
RECORDED_MIN = 200
EVENTS = {"ingress": "ingress-generic", "consumer": "consumer-batch", "relay": "relay-batch", "scheduler": "scheduler-tick",
          "dialer": "dialer-batch", "reconciler": "reconciler-tick", "api": "api-call"}  # fmt: skip


@pytest.fixture(scope="module")
def recorded() -> list[Request]:
    """The requests of the Rust tests. Requests without a sender are those of the tests themselves."""
    if not RECORDS.is_dir():
        pytest.skip(f"{RECORDS} is missing: `make test-rust` records the requests of the Rust tests")
    # `splitlines` would split at separators of Unicode too, which a text in a record may hold.
    lines = [json.loads(line) for path in sorted(RECORDS.glob("*.jsonl")) for line in path.read_text().split("\n") if line]
    requests = [Request(each["service"], each["operation"], each["body"], each["sender"]) for each in lines if each["sender"]]
    assert len(requests) >= RECORDED_MIN, f"{RECORDS} holds {len(requests)} requests"
    return requests


@pytest.fixture(scope="module")
def started(cloud, stack, tmp_path_factory) -> list[Request]:
    """The requests of each function when it starts, and for one event."""
    with recorder(cloud.endpoint) as record:
        proxied = Cloud(record.url)
        # The harness's own requests bypass the proxy.
        proxied.client = cloud.client
        for function in FUNCTIONS:
            record.sender = function
            with emulated(proxied, stack, function, bootstrap(function), tmp_path_factory.mktemp(function)) as invoke:
                invoke(sample(EVENTS[function]))
    return record.requests


@pytest.fixture(scope="module")
def operated(cloud, stack, tmp_path_factory) -> list[Request]:
    """The requests of operators' commands that need AWS, and not only the stack's API."""
    event_id = stack.post_signed("generic", {"event_id": "evt_models", "event_type": "call.ringing", "call_id": "call_models"}).json()["event_id"]
    nowhere = str(tmp_path_factory.mktemp("operated"))
    with recorder(cloud.endpoint) as record:
        record.sender = "operator"
        environment = Cloud(record.url).environment | {"XDG_CONFIG_HOME": nowhere, "XDG_STATE_HOME": nowhere}
        for arguments in (
            ["status", "--json"],
            ["providers", "list", "--json"],
            ["stuck", "--json"],
            ["reconcile", "--json"],
            ["event", "show", event_id, "--body", "--reason", "a test"],
            ["audit", "list", "--json"],
            ["check", "--json"],
        ):
            done = subprocess.run([TOOL, *arguments, "--stack", stack.name], env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode in (0, 1), done.stderr
        # The same stack after an update that failed, and with a topic for its alarms. The check then asks why it failed, and who is subscribed.
        topic = cloud.client("sns").create_topic(Name="models")["TopicArn"]
        record.replaced = {
            "<StackStatus>CREATE_COMPLETE<": "<StackStatus>UPDATE_ROLLBACK_COMPLETE<",
            "<ParameterKey>AlarmTopicArn</ParameterKey><ParameterValue></ParameterValue>": f"<ParameterKey>AlarmTopicArn</ParameterKey><ParameterValue>{topic}</ParameterValue>",
        }
        done = subprocess.run([TOOL, "check", "--json", "--stack", stack.name], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode in (0, 1), done.stderr
    return record.requests


def refused(requests: list[Request]) -> list[str]:
    return sorted({f"{request.sender} {request.name}: {problem}" for request in requests for problem in request.check()})


def test_requests_of_the_rust_tests_are_valid(recorded):
    assert refused(recorded) == []


def test_requests_of_a_function_that_starts_are_valid(started):
    assert refused(started) == []
    assert {request.sender for request in started} == set(FUNCTIONS)


def test_requests_of_the_operators_commands_are_valid(operated):
    assert refused(operated) == []


def test_every_request_without_an_sdk_client_is_among_them(operated):
    """Most of all, a model must judge the requests that are written by hand."""
    folder = ROOT / "operate" / "src" / "aws"
    source = "".join(path.read_text().split("#[cfg(test)]")[0] for path in sorted(folder.glob("*.rs")))
    written = set(re.findall(r'\("Action", "(\w+)"\)', source)) | set(re.findall(r'Service::\w+, (?:TARGET, |"\w+", )?"(\w+)"', source))
    # Some functions take the name of the operation.
    written |= set(re.findall(r'\b(?:sqs|stack_page|parameters)\("(\w+)"', source))
    # A constant may name an operation.
    for constant in re.findall(r"Service::\w+, TARGET, ([A-Z_]+)", source):
        written |= set(re.findall(rf'const {constant}: &str = "(\w+)"', source))
    assert {"DescribeStacks", "GetMetricData", "DescribeAlarms", "Invoke", "GetCallerIdentity"} <= written
    assert {"ListSubscriptionsByTopic", "GetTopicAttributes", "CreateQueue", "ListStackResources", "DescribeStackEvents"} <= written
    assert written - {request.operation for request in operated} == set()


def test_a_request_that_a_model_refuses_is_noticed():
    """The checks themselves: each of these differs from a valid request in one thing."""
    url = "http://localhost/queue.fifo"
    message = {"QueueUrl": url, "MessageBody": "{}", "MessageGroupId": "a", "MessageDeduplicationId": "a"}
    item = {"TableName": "table", "Item": {"call_id": {"S": "c"}, "version": {"N": "1"}}}
    update = {"TableName": "table", "Key": {"call_id": {"S": "c"}}, "UpdateExpression": "SET a = :a", "ExpressionAttributeValues": {":a": {"N": "1"}}}
    entry = {"EventBusName": "bus", "Source": "switchhook", "DetailType": "call.completed", "Detail": "{}"}
    query = {"Id": "m0", "MetricStat": {"Metric": {}, "Period": 60, "Stat": "p99"}}
    metrics = {"MetricDataQueries": [query], "StartTime": 1, "EndTime": 2}
    valid = [("sqs", "SendMessage", message), ("dynamodb", "PutItem", item), ("dynamodb", "UpdateItem", update), ("events", "PutEvents", {"Entries": [entry]}),
             ("cloudwatch", "GetMetricData", metrics)]  # fmt: skip
    assert refused([Request(*each) for each in valid]) == []
    for service, operation, parameters in [
        ("sqs", "SendMessages", message),
        ("sqs", "SendMessage", message | {"Delay": 1}),
        ("sqs", "SendMessage", message | {"DelaySeconds": "1"}),
        ("sqs", "SendMessage", message | {"DelaySeconds": 1}),
        ("sqs", "SendMessage", message | {"MessageGroupId": "a b"}),
        ("sqs", "SendMessage", message | {"MessageDeduplicationId": "a" * 129}),
        ("sqs", "SendMessage", message | {"MessageBody": ""}),
        ("sqs", "SendMessage", {"QueueUrl": url, "MessageBody": "{}"}),
        ("sqs", "SendMessage", {"MessageBody": "{}"}),
        ("sqs", "ReceiveMessage", {"QueueUrl": url, "MaxNumberOfMessages": 11}),
        ("sqs", "ReceiveMessage", {"QueueUrl": url, "MessageSystemAttributeNames": ["SentAt"]}),
        ("sqs", "DeleteMessageBatch", {"QueueUrl": url, "Entries": [{"Id": "0", "ReceiptHandle": "a"}] * 2}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": ""}}}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": "c" * 2049}}}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": "c"}, "wake_at": {"S": "1"}}}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": "c", "N": "1"}}}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": "c"}, "version": {"N": 1}}}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": "c"}, "version": {"N": "one"}}}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": "c"}, "names": {"SS": []}}}),
        ("dynamodb", "PutItem", item | {"Item": {"call_id": {"S": "c"}, "text": {"S": "x" * 410_000}}}),
        ("dynamodb", "PutItem", item | {"ReturnValues": "ALL_NEWS"}),
        ("dynamodb", "UpdateItem", update | {"UpdateExpression": "SET a = :b"}),
        ("dynamodb", "UpdateItem", update | {"ExpressionAttributeNames": {"#n": "name"}}),
        ("dynamodb", "Query", {"TableName": "t", "IndexName": "by_wake", "ConsistentRead": True, "KeyConditionExpression": "wake_key = wake_at"}),
        ("events", "PutEvents", {"Entries": [entry] * 11}),
        ("events", "PutEvents", {"Entries": [entry | {"Detail": "[]"}]}),
        ("events", "PutEvents", {"Entries": [entry | {"Time": "2026-11-20T12:00:00Z"}]}),
        ("events", "PutEvents", {"Entries": [entry | {"EventBusName": "a bus"}]}),
        ("cloudwatch", "GetMetricData", metrics | {"MetricDataQueries": [query | {"Id": "M0"}]}),
        ("cloudwatch", "GetMetricData", metrics | {"StartTime": 2}),
        ("cloudwatch", "DescribeAlarms", {"MaxRecords": 101}),
    ]:
        assert Request(service, operation, parameters).check(), f"{service} {operation} {str(parameters)[:200]}"
    assert list(check_shape(model_of("lambda").operation_model("Invoke").input_shape, {"FunctionName": "a/b"}, "Invoke"))


# --- permissions -------------------------------------------------------------------------------------------------------

# Actions whose name is not that of the operation.
ACTIONS = {
    "sqs:SendMessageBatch": "sqs:SendMessage",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
}
# Names of the local cloud, by the resources of the template that they stand for.
LOCAL_NAMES = {
    "switchhook-inbox": "InboxTable", "switchhook-calls": "CallsTable", "switchhook": "EventBus", "switchhook-events.fifo": "EventsQueue",
    "switchhook-events-dlq.fifo": "EventsDlq", "switchhook-dial.fifo": "DialQueue", "switchhook-due": "DueQueue",
    "switchhook-repair.fifo": "RepairQueue",
    "switchhook-relay-failures": "RelayFailuresQueue", "switchhook-webhook-keys": "WebhookKeysSecret",
    "switchhook-dial-accounts": "DialAccountsSecret",
}  # fmt: skip
# Actions that Lambda takes with the role of the function: it reads the event source, and reports what it gave up.
OF_LAMBDA = {
    "AWS::SQS::Queue": {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"},
    "AWS::DynamoDB::Table": {"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"},
}


def resource_of(request: Request, names: dict[str, str]) -> set[str]:
    """Returns the resources that a request needs a permission for, by their names in the template."""
    parameters = request.parameters
    if request.service == "events":
        return {names[each["EventBusName"]] for each in parameters.get("Entries", [])} or {names[parameters["Name"]]}
    if request.service == "secretsmanager":
        return {names[parameters["SecretId"]]}
    if "RequestItems" in parameters:
        return {names[table] for table in parameters["RequestItems"]}
    name = names[parameters["TableName"] if "TableName" in parameters else parameters["QueueUrl"].rsplit("/", 1)[1]]
    return {f"{name}/index/{parameters['IndexName']}" if "IndexName" in parameters else name}


def used(requests: list[Request], function: str, names: dict[str, str]) -> set[tuple[str, str]]:
    return {
        (ACTIONS.get(request.name, request.name), resource)
        for request in requests
        if request.sender == function
        for resource in resource_of(request, names)
    }


def resource_in_statement(resource) -> str:
    """Returns the name of a resource in a policy, for example `CallsTable/index/by_wake`."""
    if "Fn::Sub" in resource:
        return re.sub(r"\$\{(\w+)\.Arn\}", r"\1", resource["Fn::Sub"])
    return resource["Ref"] if "Ref" in resource else resource["Fn::GetAtt"][0]


def granted(function: str) -> set[tuple[str, str]]:
    """Returns what the role of a function permits, without its log and without what Lambda itself does with the role."""
    of_lambda = {("sqs:SendMessage", resource_in_statement(properties(name)["DestinationConfig"]["OnFailure"]["Destination"]))
                 for name in mappings(function) if "DestinationConfig" in properties(name)}  # fmt: skip
    for name in mappings(function):
        source = properties(name)["EventSourceArn"]["Fn::GetAtt"][0]
        of_lambda |= {(action, source) for action in OF_LAMBDA[RESOURCES[source]["Type"]]} | {("dynamodb:ListStreams", f"{source}/stream/*")}
    all_granted = {
        (action, resource_in_statement(resource))
        for statement in statements(properties(f"{function.capitalize()}Role"))
        for action in as_list(statement["Action"])
        if not action.startswith("logs:")
        for resource in as_list(statement["Resource"])
    }
    return all_granted - of_lambda


def mappings(function: str) -> list[str]:
    """Returns the event source mappings of a function."""
    named = {name: json.dumps(properties(name)["FunctionName"]) for name, each in RESOURCES.items() if each["Type"] == "AWS::Lambda::EventSourceMapping"}
    return [name for name, of in named.items() if f'"{name_of(function)}' in of]


# Permissions for requests that these tests do not provoke: the correction of a wake-up time that is too early, and the comparison with
# an event that is stored already.
UNPROVOKED = {
    "scheduler": {("dynamodb:UpdateItem", "CallsTable")},
    "dialer": {("dynamodb:GetItem", "InboxTable")},
    # Chunks of large bodies of a forgotten person. The notes of the events of a booked call whose row was lost.
    "consumer": {("dynamodb:DeleteItem", "InboxTable"), ("dynamodb:BatchGetItem", "InboxTable")},
    "reconciler": {("dynamodb:DeleteItem", "InboxTable")},
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_sends_what_its_role_permits_and_all_of_it(function, recorded, started, stack):
    physical = {value.rsplit("/", 1)[-1]: OUTPUTS[key] for key, value in stack.outputs.items() if key in OUTPUTS}
    # No output names this queue. A run that has much to sweep sends to it.
    physical[f"{stack.name}-repair.fifo"] = "RepairQueue"
    sent = used(recorded, function, LOCAL_NAMES) | used(started, function, physical)
    permitted = granted(function)
    # A mapping needs a part of these permissions too, and then nothing tells whether the function also does.
    assert sent - permitted - of_mappings(function) == set(), "requests that AWS would refuse"
    assert permitted - sent - UNPROVOKED.get(function, set()) == set(), "permissions that no request needs"


# Requests of the console that no test of its pages provokes: those to CloudWatch and CloudFormation, of which a local stack needs none,
# reads that other pages than those tested need, and the repair of a row that has lost its creation.
CONSOLE_UNPROVOKED = {
    ("cloudwatch:GetMetricData", "*"), ("cloudwatch:DescribeAlarms", "*"), ("cloudformation:DescribeStacks", "AWS::StackId"),
    ("dynamodb:PutItem", "CallsTable"), ("dynamodb:UpdateItem", "CallsTable"), ("sqs:DeleteMessage", "RelayFailuresQueue"),
    # Sent by `switchhook reconcile` in the terminal.
    ("lambda:InvokeFunction", "ReconcilerFunctionAliaslive"),
    # Sent by `switchhook forget` in the terminal, and by a run that stored an event in vain.
    ("dynamodb:DeleteItem", "InboxTable"), ("dynamodb:DeleteItem", "CallsTable"),
}  # fmt: skip


# Request for the webhook keys, by which stored events of a described provider are read anew. The keys of some providers, such as Twilio's
# auth token, open the whole account. So the policies leave it out, and an operator who needs it gets it beside them (docs/operate.md).
CONSOLE_BESIDE = {("secretsmanager:GetSecretValue", "WebhookKeysSecret")}


def permitted_to_console(policy: str) -> set[tuple[str, str]]:
    """Returns what a policy of the console permits, without the key of the customer."""
    return {
        (action, resource if resource == "*" else resource_in_statement(resource))
        for statement in properties(policy)["PolicyDocument"]["Statement"]
        if "Fn::If" not in statement
        for action in as_list(statement["Action"])
        for resource in as_list(statement["Resource"])
    }


def test_the_console_sends_what_its_policies_permit(recorded):
    reads, changes = (permitted_to_console(policy) for policy in ("ConsoleReadPolicy", "ConsoleChangePolicy"))
    looked, changed = (used(recorded, sender, LOCAL_NAMES) for sender in ("console", "console-changes"))
    assert looked and changed, "the tests of the console record nothing"
    assert looked - reads - CONSOLE_BESIDE == set(), "requests of a read-only console that AWS would refuse"
    assert not CONSOLE_BESIDE & (reads | changes), "the console may read the keys of the providers"
    assert changed - reads - changes - CONSOLE_BESIDE == set(), "requests of a console that AWS would refuse"
    assert changes - changed - CONSOLE_UNPROVOKED == set(), "permissions that no request needs"
    stored = {request.parameters["Item"]["event_id"]["S"] for request in recorded if request.sender == "console" and request.operation == "PutItem"}
    assert all(re.match(r"(chunk:\d+:)?plan:", key) for key in stored), stored


def of_mappings(function: str) -> set[tuple[str, str]]:
    sources = [properties(name)["EventSourceArn"]["Fn::GetAtt"][0] for name in mappings(function)]
    return {(action, source) for source in sources for action in OF_LAMBDA[RESOURCES[source]["Type"]]}


# Outputs whose value is the name of a resource.
OUTPUTS = {
    "InboxTableName": "InboxTable", "CallsTableName": "CallsTable", "EventBusName": "EventBus", "EventsQueueUrl": "EventsQueue",
    "EventsDlqUrl": "EventsDlq", "DialQueueUrl": "DialQueue", "DueQueueUrl": "DueQueue", "RelayFailuresQueueUrl": "RelayFailuresQueue",
    "WebhookKeysSecretArn": "WebhookKeysSecret", "DialAccountsSecretArn": "DialAccountsSecret",
}  # fmt: skip


def test_every_function_and_the_operator_are_recorded(recorded):
    assert {*FUNCTIONS, "operator"} <= {request.sender for request in recorded}
