"""Tests of template.yaml after the SAM transform, for properties that emulators do not enforce."""

import itertools
import json
import re

import pytest
import yaml
from draw_dashboard import metrics_shown, resolve, widgets
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


# --- permissions -----------------------------------------------------------------------------------------------------

INBOX, CALLS = get_att("InboxTable", "Arn"), get_att("CallsTable", "Arn")
QUEUE, DLQ, DIALS = get_att("EventsQueue", "Arn"), get_att("EventsDlq", "Arn"), get_att("DialQueue", "Arn")
BUS, WEBHOOK_KEYS, DIAL_ACCOUNTS = get_att("EventBus", "Arn"), ref("WebhookKeysSecret"), ref("DialAccountsSecret")


def index(table: str, name: str) -> dict:
    return {"Fn::Sub": f"${{{table}.Arn}}/index/{name}"}



# All permissions of each function except those on its own log group. Whoever widens a policy must change this list.
GRANTS = {
    "ingress": [
        (["dynamodb:PutItem", "dynamodb:GetItem"], [INBOX]),
        (["sqs:SendMessage"], [QUEUE, DLQ]),
        (["events:PutEvents"], [BUS]),
        (["sqs:GetQueueAttributes"], [QUEUE]),
        (["secretsmanager:GetSecretValue"], [WEBHOOK_KEYS]),
    ],
    "consumer": [
        (["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"], [QUEUE]),
        (["dynamodb:GetItem", "dynamodb:PutItem"], [CALLS]),
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [INBOX]),
        (["dynamodb:Query"], [index("InboxTable", "by_received")]),
        (["events:PutEvents"], [BUS]),
    ],
    "relay": [
        (["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], [get_att("CallsTable", "StreamArn")]),
        (["dynamodb:ListStreams"], [{"Fn::Sub": "${CallsTable.Arn}/stream/*"}]),
        (["events:PutEvents"], [BUS]),
        (["events:DescribeEventBus"], [BUS]),
        (["sqs:SendMessage"], [get_att("RelayFailuresQueue", "Arn")]),
    ],
    "scheduler": [
        (["dynamodb:Query"], [index("CallsTable", "by_wake")]),
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [CALLS]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes"], [DIALS]),
        (["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], [get_att("DueQueue", "Arn")]),
        (["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], [get_att("CallsTable", "StreamArn")]),
        (["dynamodb:ListStreams"], [{"Fn::Sub": "${CallsTable.Arn}/stream/*"}]),
    ],
    "dialer": [
        (["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], [DIALS]),
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [CALLS]),
        (["dynamodb:GetItem", "dynamodb:PutItem"], [INBOX]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes"], [QUEUE]),
        (["secretsmanager:GetSecretValue"], [DIAL_ACCOUNTS]),
    ],
    "reconciler": [
        (["dynamodb:Query"], [index("CallsTable", "by_wake"), index("InboxTable", "by_received"), index("InboxTable", "by_attention")]),
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [INBOX]),
        (["dynamodb:GetItem", "dynamodb:UpdateItem"], [CALLS]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes"], [QUEUE]),
        (["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"], [DLQ]),
        (["events:PutEvents"], [BUS]),
        (["secretsmanager:GetSecretValue"], [DIAL_ACCOUNTS]),
    ],
    "api": [
        (["dynamodb:GetItem", "dynamodb:PutItem"], [CALLS]),
        (["dynamodb:Query"], [index("CallsTable", "by_wake"), index("CallsTable", "by_appointment")]),
        (["dynamodb:DeleteItem"], [CALLS]),
        (["dynamodb:GetItem"], [INBOX]),
    ],
}

# Permissions with a condition: api may delete entries of the do-not-call list, but no calls.
CONDITIONS = {("api", "dynamodb:DeleteItem"): {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["do-not-call:*"]}}}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_what_it_needs_and_nothing_else(function):
    assert properties(name_of(function))["Role"] == get_att(f"{function.capitalize()}Role", "Arn")
    found = [(as_list(each["Action"]), as_list(each["Resource"])) for each in statements(properties(f"{function.capitalize()}Role"))]
    own_log = (["logs:CreateLogStream", "logs:PutLogEvents"], [get_att(f"{function.capitalize()}LogGroup", "Arn")])
    assert found == [own_log, *GRANTS[function]]
    for statement in statements(properties(f"{function.capitalize()}Role")):
        for action in as_list(statement["Action"]):
            assert statement.get("Condition") == CONDITIONS.get((function, action)), action


def test_what_a_schedule_may_do_is_to_invoke_its_own_function():
    for schedule in of_type("AWS::Scheduler::Schedule").values():
        role = properties(schedule["Target"]["RoleArn"]["Fn::GetAtt"][0])
        (statement,) = statements(role)
        assert (statement["Action"], statement["Resource"]) == ("lambda:InvokeFunction", schedule["Target"]["Arn"])


def test_no_role_is_wider_than_its_statements():
    for name, role in of_type("AWS::IAM::Role").items():
        assert "ManagedPolicyArns" not in role, name
        for statement in statements(role):
            assert statement["Effect"] == "Allow" and "NotAction" not in statement and "NotResource" not in statement, name
            assert not [action for action in as_list(statement["Action"]) if "*" in action], name
            # The only wildcard is in the ARN of a stream, whose name is not known before its table exists.
            resources = [json.dumps(each) for each in as_list(statement["Resource"])]
            assert not [each for each in resources if "*" in each and each != '{"Fn::Sub": "${CallsTable.Arn}/stream/*"}'], name
    assert list(of_type("AWS::IAM::Policy")) == ["TracingPolicy"] and not of_type("AWS::IAM::ManagedPolicy")


def test_functions_may_send_traces_only_if_tracing_is_active():
    assert TEMPLATE["Parameters"]["Tracing"]["Default"] == "PassThrough"
    for function in FUNCTIONS:
        assert properties(name_of(function))["TracingConfig"] == {"Mode": ref("Tracing")}, function
    assert TEMPLATE["Conditions"]["IsTraced"] == {"Fn::Equals": [ref("Tracing"), "Active"]}
    assert RESOURCES["TracingPolicy"]["Condition"] == "IsTraced"
    assert properties("TracingPolicy")["Roles"] == [ref(f"{function.capitalize()}Role") for function in FUNCTIONS]
    (statement,) = properties("TracingPolicy")["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]


ROUTES = {
    "POST /webhooks/{provider}": "ingress",
    "POST /webhooks/{provider}/inbound": "ingress",
    "POST /calls": "api",
    "POST /calls/batch": "api",
    "GET /calls": "api",
    "GET /call": "api",
    "GET /call/events": "api",
    "POST /call/cancel": "api",
    "POST /call/trigger": "scheduler",
    "GET /appointment": "api",
    "GET /event/status": "api",
    "PUT /do-not-call": "api",
    "DELETE /do-not-call": "api",
}


def test_only_webhooks_are_open_to_the_world():
    routes = {route["RouteKey"]: route["AuthorizationType"] for route in of_type("AWS::ApiGatewayV2::Route").values()}
    assert routes == {key: "NONE" if key.startswith("POST /webhooks/") else "AWS_IAM" for key in ROUTES}


def test_no_request_fits_two_routes():
    """An HTTP API would choose the more specific route. Here it never has to choose."""
    keys = [route["RouteKey"] for route in of_type("AWS::ApiGatewayV2::Route").values()]
    assert "$default" not in keys and not [key for key in keys if "+}" in key]

    def fits_both(one: str, other: str) -> bool:
        parts = [key.replace(" ", "").split("/") for key in (one, other)]
        return len(parts[0]) == len(parts[1]) and all(a == b or "{" in a or "{" in b for a, b in zip(*parts))

    assert not [pair for pair in itertools.combinations(keys, 2) if fits_both(*pair)]


def test_the_api_knows_the_routes_that_lead_to_it():
    source = (ROOT / "functions" / "api" / "src" / "route.rs").read_text()
    known = {f"{method} {path}" for method, path in re.findall(r'\("([A-Z]+)", "(/[^"]+)"(?:, Operation|\)\])', source)}
    assert known == {key for key, function in ROUTES.items() if function != "ingress"}


def test_the_document_of_the_api_has_the_routes_that_want_a_signature():
    paths = yaml.safe_load((ROOT / "infra" / "openapi.yaml").read_text())["paths"]
    written = {f"{method.upper()} {path}" for path, item in paths.items() for method in item if method in ("get", "post", "put", "delete")}
    assert written == {key for key, function in ROUTES.items() if function != "ingress"}


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
        assert function == name_of(ROUTES[route["RouteKey"]])
        assert (function, route["RouteKey"].replace(" ", "")) in permitted
    assert len(permitted) == len(stage["RouteSettings"]) == len(ROUTES)
    for key, throttle in stage["RouteSettings"].items():
        kind = "Webhook" if ROUTES[key] == "ingress" else "Api"
        assert throttle == {"ThrottlingRateLimit": ref(f"{kind}RatePerSecond"), "ThrottlingBurstLimit": ref(f"{kind}Burst")}


def test_the_stage_comes_after_every_route_that_it_throttles():
    (name,) = [name for name, resource in RESOURCES.items() if resource["Type"] == "AWS::ApiGatewayV2::Stage"]
    assert sorted(RESOURCES[name]["DependsOn"]) == sorted(of_type("AWS::ApiGatewayV2::Route"))


# --- environment variables -------------------------------------------------------------------------------------------

# Environment variables of each function, besides those of all functions. docs/configuration.md lists the same.
API_URLS = ["RETELL_API_URL", "TWILIO_API_URL", "VAPI_API_URL", "TELNYX_API_URL"]
ENVIRONMENT = {
    "ingress": ["INBOX_TABLE", "QUEUE_URL", "DLQ_URL", "EVENT_BUS", "WEBHOOK_KEYS_SECRET_ID", "INBOX_RETENTION_DAYS"],
    "consumer": [
        "INBOX_TABLE", "CALLS_TABLE", "INDEX_NUMBERS", "QUEUE_URL", "EVENT_BUS", "INACTIVITY_TIMEOUT_SECONDS", "OUTCOME_PROVIDERS", "CALL_RETENTION_DAYS", "INBOX_RETENTION_DAYS", "MAX_RECEIVE_COUNT",
        "BLOCK_ON_REQUEST"
    ],
    "relay": ["EVENT_BUS"],
    "scheduler": ["CALLS_TABLE", "INDEX_NUMBERS", "DIAL_QUEUE_URL", "DUE_QUEUE_URL", "DIAL_RATES", "INACTIVITY_TIMEOUT_SECONDS", "OUTCOME_PROVIDERS", "CONCURRENT_DIALS_PER_PROVIDER", "CALL_RETENTION_DAYS"],
    "dialer": [
        "INBOX_TABLE", "CALLS_TABLE", "INDEX_NUMBERS", "QUEUE_URL", "DIAL_ACCOUNTS_SECRET_ID", "DIAL_RATES", "INACTIVITY_TIMEOUT_SECONDS", "OUTCOME_PROVIDERS", "CONCURRENT_DIALS_PER_PROVIDER", "INBOX_RETENTION_DAYS",
        "CALL_RETENTION_DAYS", *API_URLS
    ],
    "reconciler": ["INBOX_TABLE", "CALLS_TABLE", "QUEUE_URL", "DLQ_URL", "EVENT_BUS", "DIAL_ACCOUNTS_SECRET_ID", "INACTIVITY_TIMEOUT_SECONDS", "OUTCOME_PROVIDERS", "INBOX_RETENTION_DAYS", *API_URLS],
    "api": [
        "INBOX_TABLE", "CALLS_TABLE", "INDEX_NUMBERS", "INACTIVITY_TIMEOUT_SECONDS", "OUTCOME_PROVIDERS", "CALL_RETENTION_DAYS", "CALLING_WINDOW", "RETRY_ATTEMPTS_MAX",
        "RETRY_DELAY_SECONDS", "RETRY_DELAY_MAX_SECONDS"
    ],
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_told_what_its_configuration_reads(function):
    variables = properties(name_of(function))["Environment"]["Variables"]
    assert sorted(variables) == sorted([*ENVIRONMENT[function], "RUST_LOG", "STACK_NAME", "AWS_ENDPOINT_URL"])
    source = (ROOT / "functions" / function / "src" / "lib.rs").read_text()
    read = set(re.findall(r'environment\.\w+\("([A-Z_]+)"[,)]', source))
    if "environment.policy()" in source:
        read |= {"INACTIVITY_TIMEOUT_SECONDS", "OUTCOME_PROVIDERS"}
    if "ApiUrls::from_environment" in source:
        read |= set(API_URLS)
    assert sorted(read) == sorted(ENVIRONMENT[function])
    # Not set on AWS, where the SDK finds the endpoints.
    assert variables["AWS_ENDPOINT_URL"] == {"Fn::If": ["HasEndpointUrl", ref("AwsEndpointUrl"), ref("AWS::NoValue")]}


# --- queues and mappings ---------------------------------------------------------------------------------------------


def test_whoever_places_calls_or_asks_about_them_does_so_at_the_same_address():
    for function in ("dialer", "reconciler"):
        variables = properties(name_of(function))["Environment"]["Variables"]
        for provider in ("Retell", "Twilio", "Vapi", "Telnyx"):
            assert variables[f"{provider.upper()}_API_URL"] == ref(f"{provider}ApiUrl")
            # An empty URL means the provider's own API.
            assert TEMPLATE["Parameters"][f"{provider}ApiUrl"]["Default"] == ""


@pytest.mark.parametrize(("queue", "function"), [("EventsQueue", "consumer"), ("DialQueue", "dialer"), ("DueQueue", "scheduler")])
def test_a_message_stays_hidden_for_six_times_the_time_that_its_function_has(queue, function):
    assert properties(queue)["VisibilityTimeout"] >= 6 * properties(name_of(function))["Timeout"]


def test_the_queue_is_fifo_in_high_throughput_mode_and_gives_up_into_a_fifo_queue():
    queue, dlq = properties("EventsQueue"), properties("EventsDlq")
    for each in (queue, dlq):
        assert (each["FifoQueue"], each["DeduplicationScope"], each["FifoThroughputLimit"]) == (True, "messageGroup", "perMessageGroupId")
        assert each["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert queue["RedrivePolicy"] == {"deadLetterTargetArn": DLQ, "maxReceiveCount": ref("MaxReceiveCount")}
    assert properties("ConsumerFunction")["Environment"]["Variables"]["MAX_RECEIVE_COUNT"] == ref("MaxReceiveCount")
    assert TEMPLATE["Parameters"]["MaxReceiveCount"]["Default"] == 20


def test_the_consumer_reports_failures_one_by_one_and_its_concurrency_is_bounded():
    mapping = properties("ConsumerMapping")
    assert mapping["EventSourceArn"] == QUEUE
    assert mapping["BatchSize"] == 10
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": ref("ConsumerMaxConcurrency")}


def test_claims_go_through_a_fifo_queue_that_keeps_them_no_longer_than_they_are_good_for():
    queue = properties("DialQueue")
    assert queue["QueueName"] == {"Fn::Sub": "${AWS::StackName}-dial.fifo"}
    assert (queue["FifoQueue"], queue["DeduplicationScope"], queue["FifoThroughputLimit"]) == (True, "messageGroup", "perMessageGroupId")
    assert queue["SqsManagedSseEnabled"] is True
    # The reconciler returns a claim after five minutes, so a dead-letter queue would hold only useless messages.
    assert 5 * 60 < queue["MessageRetentionPeriod"] <= 3600
    assert "RedrivePolicy" not in queue


def test_the_dialer_takes_one_claim_at_a_time_and_its_concurrency_is_bounded():
    mapping = properties("DialerMapping")
    assert mapping["EventSourceArn"] == DIALS
    assert mapping["BatchSize"] == 1
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": ref("DialerMaxConcurrency")}
    assert TEMPLATE["Parameters"]["DialerMaxConcurrency"]["Default"] == 20
    for function in ("scheduler", "dialer"):
        assert properties(name_of(function))["Environment"]["Variables"]["CONCURRENT_DIALS_PER_PROVIDER"] == ref("ConcurrentDialsPerProvider")


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
    assert json.loads(pattern["Pattern"]) == {"dynamodb": {"NewImage": {"outbox_start": {"N": [{"exists": True}]}}}}


def test_the_scheduler_is_invoked_for_writes_of_calls_that_are_due_soon_and_for_delayed_messages():
    stream, queue = properties("DueCallsMapping"), properties("DueQueueMapping")
    assert stream["EventSourceArn"] == get_att("CallsTable", "StreamArn")
    (pattern,) = stream["FilterCriteria"]["Filters"]
    assert json.loads(pattern["Pattern"]) == {"dynamodb": {"NewImage": {"due_soon": {"N": [{"exists": True}]}}}}
    # The schedule finds a call whose record is lost, so no old record delays a new one.
    assert (stream["StartingPosition"], stream["MaximumRetryAttempts"], stream["MaximumRecordAgeInSeconds"]) == ("LATEST", 0, 60)
    assert queue["EventSourceArn"] == get_att("DueQueue", "Arn")
    assert "FifoQueue" not in properties("DueQueue")


# --- retention and alarms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["InboxTable", "CallsTable"])
def test_a_table_survives_the_stack_and_can_be_restored(table):
    assert RESOURCES[table]["DeletionPolicy"] == RESOURCES[table]["UpdateReplacePolicy"] == "Retain"
    found = properties(table)
    assert found["BillingMode"] == "PAY_PER_REQUEST"
    assert found["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert found["SSESpecification"] == {"SSEEnabled": True}


def test_the_indexes_of_the_calls_hold_keys_alone():
    """With more attributes, every write of a call would copy phone numbers and names into the indexes."""
    indexes = {index["IndexName"]: index["Projection"] for index in properties("CallsTable")["GlobalSecondaryIndexes"]}
    assert indexes == {name: {"ProjectionType": "KEYS_ONLY"} for name in ("by_wake", "by_appointment", "by_party")}


@pytest.mark.parametrize("secret", ["WebhookKeysSecret", "DialAccountsSecret"])
def test_a_secret_starts_without_a_single_key(secret):
    assert json.loads(properties(secret)["SecretString"]) == {}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_logs_go_to_a_group_that_forgets(function):
    logging = properties(name_of(function))["LoggingConfig"]
    assert properties(logging["LogGroup"]["Ref"])["RetentionInDays"] == ref("LogRetentionDays")


ALARMS = of_type("AWS::CloudWatch::Alarm")
ALARM_ACTION = {"Fn::If": ["HasAlarmTopic", [ref("AlarmTopicArn")], ref("AWS::NoValue")]}


def metrics_of(alarm: dict) -> list[tuple]:
    """Returns namespace, name and dimensions of each metric that an alarm looks at."""
    stats = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", []) if "MetricStat" in query] or [alarm]
    return [(each["Namespace"], each["MetricName"], {one["Name"]: one["Value"] for one in each["Dimensions"]}) for each in stats]


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_has_its_severity_in_its_name_and_wakes_somebody(name):
    alarm = ALARMS[name]
    severity, words = re.fullmatch(r"(P[123])(\w+)Alarm", name).groups()
    kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", words).lower()
    assert alarm["AlarmName"] == {"Fn::Sub": f"${{AWS::StackName}}-{severity}-{kebab}"}
    assert alarm["AlarmActions"] == alarm["OKActions"] == ALARM_ACTION
    # Local emulators accept neither metric math nor what depends on it.
    assert RESOURCES[name].get("Condition") == ("OnAws" if "Metrics" in alarm else None)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("ApproximateNumberOfMessagesVisible", get_att("EventsDlq", "QueueName")),
        ("ApproximateNumberOfMessagesVisible", get_att("RelayFailuresQueue", "QueueName")),
        ("ApproximateAgeOfOldestMessage", get_att("EventsQueue", "QueueName")),
        ("ApproximateAgeOfOldestMessage", get_att("DialQueue", "QueueName")),
        ("Invocations", ref("SchedulerFunction")),
        ("Invocations", ref("ReconcilerFunction")),
        ("IteratorAge", ref("RelayFunction")),
        ("5xx", ref("HttpApi")),
        *[(metric, ref(name_of(function))) for metric in ("Errors", "Throttles") for function in FUNCTIONS],
        *[(f"{kind}ThrottleEvents", ref(table)) for kind in ("Read", "Write") for table in ("InboxTable", "CallsTable")],
    ],
)
def test_somebody_is_woken(metric, value):
    assert [name for name, alarm in ALARMS.items() for _, found, dimensions in metrics_of(alarm) if found == metric and value in dimensions.values()]


def test_the_price_of_the_alarms_is_in_the_documentation():
    """An alarm costs $0.10 a month for each metric that it looks at, and a band counts as two more."""
    looked_at = sum(len(metrics_of(alarm)) + (2 if "ThresholdMetricId" in alarm else 0) for alarm in ALARMS.values())
    assert f"{len(ALARMS)} alarms on {looked_at} metrics, $0.10 each | {looked_at / 10:.2f} |" in (ROOT / "docs" / "cost.md").read_text()


def dashboard() -> list[dict]:
    return widgets(TEMPLATE)


def test_the_dashboard_fits_its_grid_and_asks_the_three_questions_first():
    found = dashboard()
    assert [each["properties"]["title"] for each in found if each["y"] == 0] == ["Healthy?", "Backlog?", "Poison?"]
    for one, other in itertools.combinations(found, 2):
        apart = [a[at] + a[size] <= b[at] for a, b in ((one, other), (other, one)) for at, size in (("x", "width"), ("y", "height"))]
        assert any(apart), f"{one['properties']['title']} covers {other['properties']['title']}"
    assert all(each["x"] + each["width"] <= 24 for each in found)
    named = [arn.partition(":alarm:")[2] for each in found for arn in each["properties"].get("alarms", [])]
    assert sorted(named) == sorted(resolve(alarm["AlarmName"]) for alarm in ALARMS.values())


# Metrics that AWS makes itself. Source: the page of each service in the AWS documentation, "CloudWatch metrics" or "metrics and dimensions".
AWS_METRICS = {
    "AWS/Lambda": ({"Invocations", "Errors", "Throttles", "Duration", "IteratorAge"}, {"FunctionName"}),
    "AWS/SQS": (
        {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "NumberOfMessagesSent", "NumberOfMessagesReceived",
         "NumberOfMessagesDeleted"},
        {"QueueName"},
    ),
    "AWS/ApiGateway": ({"Count", "5xx"}, {"ApiId"}),
    "AWS/DynamoDB": (
        {"ReadThrottleEvents", "WriteThrottleEvents", "ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"},
        {"TableName", "GlobalSecondaryIndexName"},
    ),
}


def test_every_metric_of_an_alarm_or_of_the_dashboard_is_counted():
    """If the code renames a metric, its alarm would never fire again, and its line in a graph would be empty."""
    source = (ROOT / "shared" / "aws" / "src" / "telemetry" / "metrics.rs").read_text()
    own = {(function, name) for function, name in re.findall(r'(?:count|milliseconds)\(\s*"(\w+)",\s*"(\w+)"', source)}
    (counted,) = properties("HttpThrottlesFilter")["MetricTransformations"]
    fields = resolve(properties("HttpStage")["AccessLogSettings"]["Format"])
    assert '"function":"gateway"' in fields and {each["Value"] for each in counted["Dimensions"]} == {"$.stack", "$.function"}
    own.add(("gateway", counted["MetricName"]))
    names = {"AWS::StackName": "local"}
    for namespace, name, dimensions in [
        *(each for alarm in ALARMS.values() for each in metrics_of(resolve(alarm))),
        *(each for widget in dashboard() for each in metrics_shown(widget)),
    ]:
        if namespace == "Switchhook":
            assert dimensions.get("stack") == names["AWS::StackName"], name
            assert (dimensions["function"], name) in own, f"{dimensions['function']} does not count {name}"
        else:
            metrics, allowed = AWS_METRICS[namespace]
            assert name in metrics and set(dimensions) <= allowed, f"{namespace} {name}"


def test_the_message_of_an_operator_event_names_the_events():
    rule = properties("AttentionRule")
    assert RESOURCES["AttentionRule"]["Condition"] == "HasAlarmTopic"
    assert rule["EventPattern"] == {"source": ["switchhook"], "detail-type": ["operator.attention"]}
    (target,) = rule["Targets"]
    assert target["Arn"] == ref("AlarmTopicArn")
    assert set(re.findall(r"<(\w+)>", target["InputTransformer"]["InputTemplate"]["Fn::Sub"])) == set(target["InputTransformer"]["InputPathsMap"])


@pytest.mark.parametrize("function", ["scheduler", "reconciler"])
def test_what_runs_every_minute_ends_within_it_and_is_not_repeated(function):
    schedule = properties(f"{function.capitalize()}Schedule")
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["Target"]["Arn"] == get_att(name_of(function), "Arn")
    assert schedule["Target"]["Input"] == "{}"
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert properties(name_of(function))["Timeout"] < 60


def test_drift_is_looked_for_every_hour():
    schedule = properties("DriftSchedule")
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"] == get_att("ReconcilerFunction", "Arn")
    # The event that selects the drift check.
    assert json.loads(schedule["Target"]["Input"]) == {"run": "drift"}
    assert 'get("run").and_then(Value::as_str) == Some("drift")' in (ROOT / "functions" / "reconciler" / "src" / "main.rs").read_text()
    assert len(of_type("AWS::Scheduler::Schedule")) == 3


def test_nothing_that_is_not_there_sets_off_an_alarm_but_a_silent_schedule():
    breaching = [name for name, alarm in ALARMS.items() if alarm["TreatMissingData"] == "breaching"]
    assert sorted(breaching) == ["P1ReconcilerNotRunningAlarm", "P1SchedulerNotRunningAlarm", "P3DriftCheckNotRunningAlarm"]
    for name in breaching:
        assert properties(name)["ComparisonOperator"] == "LessThanThreshold"
