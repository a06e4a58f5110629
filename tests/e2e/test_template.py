"""What template.yaml promises, read from what CloudFormation will see. Emulators enforce none of it."""

import json
import re

import pytest
from expand_template import expand

from harness import FUNCTIONS, ROOT

TEMPLATE = expand(ROOT / "template.yaml")
RESOURCES = TEMPLATE["Resources"]


def of_type(kind: str) -> dict:
    return {name: resource["Properties"] for name, resource in RESOURCES.items() if resource["Type"] == kind}


def properties(name: str) -> dict:
    return RESOURCES[name]["Properties"]


def name_of(function: str) -> str:
    return f"{function.capitalize()}Function"


def get_att(resource: str, attribute: str) -> dict:
    return {"Fn::GetAtt": [resource, attribute]}


def ref(name: str) -> dict:
    return {"Ref": name}


def statements(role: dict) -> list:
    return [statement for policy in role["Policies"] for statement in policy["PolicyDocument"]["Statement"]]


def as_list(value) -> list:
    return value if isinstance(value, list) else [value]


# --- who may do what -------------------------------------------------------------------------------------------------

INBOX, CALLS = get_att("InboxTable", "Arn"), get_att("CallsTable", "Arn")
QUEUE, DLQ = get_att("EventsQueue", "Arn"), get_att("EventsDlq", "Arn")

# Every action on every resource that a function may touch, besides its own log group. A wider policy is a change here.
GRANTS = {
    "ingress": [
        (["dynamodb:PutItem", "dynamodb:GetItem"], [INBOX]),
        (["sqs:SendMessage"], [QUEUE, DLQ]),
        (["sqs:GetQueueAttributes"], [QUEUE]),
        (["secretsmanager:GetSecretValue"], [ref("ProvidersSecret")]),
    ],
    "consumer": [
        (["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"], [QUEUE]),
        (["dynamodb:GetItem", "dynamodb:PutItem"], [CALLS]),
        (["dynamodb:PutItem"], [INBOX]),
    ],
    "relay": [
        (["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], [get_att("CallsTable", "StreamArn")]),
        (["dynamodb:ListStreams"], [{"Fn::Sub": "${CallsTable.Arn}/stream/*"}]),
        (["events:PutEvents"], [get_att("EventBus", "Arn")]),
        (["events:DescribeEventBus"], [get_att("EventBus", "Arn")]),
        (["sqs:SendMessage"], [get_att("RelayFailuresQueue", "Arn")]),
    ],
    "reconciler": [
        (["dynamodb:Query"], [{"Fn::Sub": "${CallsTable.Arn}/index/by_wake"}, {"Fn::Sub": "${InboxTable.Arn}/index/by_received"}]),
        (["dynamodb:GetItem", "dynamodb:PutItem"], [INBOX]),
        (["dynamodb:GetItem", "dynamodb:UpdateItem"], [CALLS]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes"], [QUEUE]),
    ],
    "api": [
        (["dynamodb:GetItem"], [CALLS, INBOX]),
    ],
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_what_it_needs_and_nothing_else(function):
    assert properties(name_of(function))["Role"] == get_att(f"{function.capitalize()}Role", "Arn")
    found = [(as_list(each["Action"]), as_list(each["Resource"])) for each in statements(properties(f"{function.capitalize()}Role"))]
    own_log = (["logs:CreateLogStream", "logs:PutLogEvents"], [get_att(f"{function.capitalize()}LogGroup", "Arn")])
    assert found == [own_log, *GRANTS[function]]


def test_no_role_is_wider_than_its_statements():
    for name, role in of_type("AWS::IAM::Role").items():
        assert "ManagedPolicyArns" not in role, name
        for statement in statements(role):
            assert statement["Effect"] == "Allow" and "NotAction" not in statement and "NotResource" not in statement, name
            assert not [action for action in as_list(statement["Action"]) if "*" in action], name
            assert "*" not in as_list(statement["Resource"]), name
    assert not of_type("AWS::IAM::Policy") and not of_type("AWS::IAM::ManagedPolicy")


def test_only_webhooks_are_open_to_the_world():
    routes = {route["RouteKey"]: route["AuthorizationType"] for route in of_type("AWS::ApiGatewayV2::Route").values()}
    assert routes == {
        "POST /webhooks/{provider}": "NONE",
        "GET /calls/{call_id}": "AWS_IAM",
        "GET /calls/{call_id}/events": "AWS_IAM",
        "GET /events/{event_id}/status": "AWS_IAM",
    }


def test_every_route_has_a_throttle_and_leads_to_a_function_that_it_may_invoke():
    (stage,) = of_type("AWS::ApiGatewayV2::Stage").values()
    permitted = {
        (permission["FunctionName"]["Ref"], permission["SourceArn"]["Fn::Sub"].rsplit("${HttpApi}/*/", 1)[1])
        for permission in of_type("AWS::Lambda::Permission").values()
    }
    for route in of_type("AWS::ApiGatewayV2::Route").values():
        assert route["RouteKey"] in stage["RouteSettings"]
        integration = re.fullmatch(r"integrations/\$\{(\w+)\}", route["Target"]["Fn::Sub"])[1]
        function = properties(integration)["IntegrationUri"]["Fn::GetAtt"][0]
        assert (function, route["RouteKey"].replace(" ", "")) in permitted


# --- what the code is told -------------------------------------------------------------------------------------------

# README's table of variables says the same; nothing else reaches a function.
ENVIRONMENT = {
    "ingress": ["INBOX_TABLE", "QUEUE_URL", "DLQ_URL", "PROVIDERS_SECRET_ID", "INBOX_RETENTION_DAYS"],
    "consumer": ["INBOX_TABLE", "CALLS_TABLE", "QUEUE_URL", "PATIENCE_SECONDS", "CALL_RETENTION_DAYS", "INBOX_RETENTION_DAYS", "RECEIVES_MAX"],
    "relay": ["EVENT_BUS"],
    "reconciler": ["INBOX_TABLE", "CALLS_TABLE", "QUEUE_URL", "PATIENCE_SECONDS", "INBOX_RETENTION_DAYS"],
    "api": ["INBOX_TABLE", "CALLS_TABLE"],
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_told_what_its_configuration_reads(function):
    variables = properties(name_of(function))["Environment"]["Variables"]
    assert sorted(variables) == sorted([*ENVIRONMENT[function], "RUST_LOG", "STACK_NAME", "AWS_ENDPOINT_URL"])
    source = (ROOT / "functions" / function / "src" / "lib.rs").read_text()
    assert sorted(set(re.findall(r'environment\.\w+\("([A-Z_]+)"\)', source))) == sorted(ENVIRONMENT[function])
    # Absent on AWS, where the SDK knows better.
    assert variables["AWS_ENDPOINT_URL"] == {"Fn::If": ["HasEndpointUrl", ref("AwsEndpointUrl"), ref("AWS::NoValue")]}


# --- queues and mappings ---------------------------------------------------------------------------------------------


def test_a_message_stays_hidden_for_six_times_the_time_a_consumer_has():
    assert properties("EventsQueue")["VisibilityTimeout"] >= 6 * properties("ConsumerFunction")["Timeout"]


def test_the_queue_is_fifo_in_high_throughput_mode_and_gives_up_into_a_fifo_queue():
    queue, dlq = properties("EventsQueue"), properties("EventsDlq")
    for each in (queue, dlq):
        assert (each["FifoQueue"], each["DeduplicationScope"], each["FifoThroughputLimit"]) == (True, "messageGroup", "perMessageGroupId")
        assert each["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": DLQ, "maxReceiveCount": ref("ReceivesMax")}
    assert properties("ConsumerFunction")["Environment"]["Variables"]["RECEIVES_MAX"] == ref("ReceivesMax")
    assert TEMPLATE["Parameters"]["ReceivesMax"]["Default"] == 20


def test_the_consumer_reports_failures_one_by_one_and_its_concurrency_is_bounded():
    mapping = properties("ConsumerMapping")
    assert mapping["EventSourceArn"] == QUEUE
    assert mapping["BatchSize"] == 10
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": ref("ConsumerMaxConcurrency")}


def test_the_relay_gives_up_before_the_stream_forgets_and_says_so():
    mapping = properties("RelayMapping")
    assert mapping["EventSourceArn"] == get_att("CallsTable", "StreamArn")
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BisectBatchOnFunctionError"] is True
    assert 0 < mapping["MaximumRetryAttempts"] <= 10000
    assert 0 < mapping["MaximumRecordAgeInSeconds"] < 24 * 3600
    assert mapping["DestinationConfig"] == {"OnFailure": {"Destination": get_att("RelayFailuresQueue", "Arn")}}


def test_the_relay_is_invoked_only_for_writes_that_commit_domain_events():
    (pattern,) = properties("RelayMapping")["FilterCriteria"]["Filters"]
    assert json.loads(pattern["Pattern"]) == {"dynamodb": {"NewImage": {"outbox": {"N": [{"exists": True}]}}}}


# --- what is kept, and what wakes people -----------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["InboxTable", "CallsTable"])
def test_a_table_survives_the_stack_and_can_be_restored(table):
    assert RESOURCES[table]["DeletionPolicy"] == RESOURCES[table]["UpdateReplacePolicy"] == "Retain"
    found = properties(table)
    assert found["BillingMode"] == "PAY_PER_REQUEST"
    assert found["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert found["SSESpecification"] == {"SSEEnabled": True}


def test_the_secret_starts_without_a_single_key():
    assert json.loads(properties("ProvidersSecret")["SecretString"]) == {}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_logs_go_to_a_group_that_forgets(function):
    logging = properties(name_of(function))["LoggingConfig"]
    assert properties(logging["LogGroup"]["Ref"])["RetentionInDays"] == ref("LogRetentionDays")


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("ApproximateNumberOfMessagesVisible", get_att("EventsDlq", "QueueName")),
        ("ApproximateNumberOfMessagesVisible", get_att("RelayFailuresQueue", "QueueName")),
        ("ApproximateAgeOfOldestMessage", get_att("EventsQueue", "QueueName")),
        ("IteratorAge", ref("RelayFunction")),
        ("5xx", ref("HttpApi")),
        *[("Errors", ref(name_of(function))) for function in FUNCTIONS],
    ],
)
def test_somebody_is_woken(metric, value):
    (alarm,) = [
        each for each in of_type("AWS::CloudWatch::Alarm").values() if each["MetricName"] == metric and each["Dimensions"][0]["Value"] == value
    ]
    assert alarm["AlarmActions"] == {"Fn::If": ["HasAlarmTopic", [ref("AlarmTopicArn")], ref("AWS::NoValue")]}


def test_alarms_on_our_own_metrics_name_metrics_that_are_counted():
    """A metric that the code renames would leave its alarm silent for ever."""
    ours = [each for each in of_type("AWS::CloudWatch::Alarm").values() if each["Namespace"] == "Switchhook"]
    assert sorted(each["MetricName"] for each in ours) == ["conflicting_body", "quarantined", "record_skipped"]
    words = "".join(path.read_text() for folder in ("functions", "shared") for path in sorted((ROOT / folder).rglob("*.rs")))
    assert 'NAMESPACE: &str = "Switchhook"' in words
    for each in ours:
        assert f'"{each["MetricName"]}"' in words
        assert f'stage: "{each["Dimensions"][0]["Value"]}"' in words
        assert each["Dimensions"][1] == {"Name": "stack", "Value": ref("AWS::StackName")}


def test_the_reconciler_runs_every_minute_and_ends_within_it():
    (schedule,) = of_type("AWS::Scheduler::Schedule").values()
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["Target"]["Arn"] == get_att("ReconcilerFunction", "Arn")
    assert properties("ReconcilerFunction")["Timeout"] < 60
