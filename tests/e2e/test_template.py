"""Tests of template.yaml after the SAM transform, for properties that emulators do not enforce."""

import itertools
import json
import re
import tomllib
from fnmatch import fnmatch

import pytest
import yaml
from draw_dashboard import metrics_shown, resolve, widgets
from expand_template import expand
from parameters import parameters
from samcli.lib.providers.api_provider import ApiProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider

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


def alias(function: str) -> dict:
    """Returns the reference to the alias `live` of a function, as the SAM transform names it."""
    return ref(f"{name_of(function)}Aliaslive")


def names_in(value) -> set[str]:
    """Returns every name that a part of the template refers to, also those in the conditions that it depends on."""
    match value:
        case {"Ref": name}:
            return {name}
        case {"Fn::Sub": str(text)}:
            return set(re.findall(r"\$\{(\w+)\}", text))
        case {"Fn::If": [condition, *branches]}:
            return names_in(TEMPLATE["Conditions"][condition]) | names_in(branches)
        case dict():
            return set().union(*map(names_in, value.values())) if value else set()
        case list():
            return set().union(*map(names_in, value)) if value else set()
    return set()


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
        (["dynamodb:PutItem", "dynamodb:GetItem", "dynamodb:UpdateItem"], [INBOX]),
        (["sqs:SendMessage"], [QUEUE, DLQ]),
        (["events:PutEvents"], [BUS]),
        (["sqs:GetQueueAttributes"], [QUEUE]),
        (["secretsmanager:GetSecretValue"], [WEBHOOK_KEYS]),
    ],
    "consumer": [
        (["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"], [QUEUE]),
        (["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem"], [CALLS]),
        (["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [INBOX]),
        (["dynamodb:DeleteItem"], [INBOX]),
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
        (["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [CALLS]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes"], [DIALS]),
        (["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], [get_att("DueQueue", "Arn")]),
        (["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"], [get_att("CallsTable", "StreamArn")]),
        (["dynamodb:ListStreams"], [{"Fn::Sub": "${CallsTable.Arn}/stream/*"}]),
    ],
    "dialer": [
        (["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], [DIALS]),
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [CALLS]),
        (["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [INBOX]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes"], [QUEUE]),
        (["secretsmanager:GetSecretValue"], [DIAL_ACCOUNTS]),
    ],
    "reconciler": [
        (["dynamodb:Query"], [index("CallsTable", "by_wake"), index("InboxTable", "by_received"), index("InboxTable", "by_attention")]),
        (["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [INBOX]),
        (["dynamodb:DeleteItem"], [INBOX]),
        (["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [CALLS]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes"], [QUEUE]),
        (["sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:ChangeMessageVisibility"], [DLQ]),
        (["sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], [get_att("RepairQueue", "Arn")]),
        (["events:PutEvents"], [BUS]),
        (["secretsmanager:GetSecretValue"], [DIAL_ACCOUNTS]),
    ],
    "api": [
        (["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:PutItem"], [CALLS]),
        (["dynamodb:Query"], [index("CallsTable", "by_wake"), index("CallsTable", "by_appointment")]),
        (["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"], [INBOX]),
        (["dynamodb:Query"], [index("InboxTable", "by_received")]),
    ],
}

def deletes(*keys):
    """Condition that allows items with these keys to be deleted."""
    return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(keys)}}


# Permissions with a condition: two functions may delete what an erased event leaves, but no events.
CONDITIONS = {
    ("consumer", "dynamodb:DeleteItem"): deletes("chunk:*", "conflict:*"),
    ("reconciler", "dynamodb:DeleteItem"): deletes("chunk:*", "conflict:*"),
}


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
        assert schedule["Target"]["Arn"] in map(alias, FUNCTIONS)


def test_no_role_is_wider_than_its_statements():
    for name, role in of_type("AWS::IAM::Role").items():
        assert "ManagedPolicyArns" not in role, name
        for statement in statements(role):
            assert statement["Effect"] == "Allow" and "NotAction" not in statement and "NotResource" not in statement, name
            assert not [action for action in as_list(statement["Action"]) if "*" in action], name
            # The only wildcard is in the ARN of a stream, whose name is not known before its table exists.
            resources = [json.dumps(each) for each in as_list(statement["Resource"])]
            assert not [each for each in resources if "*" in each and each != '{"Fn::Sub": "${CallsTable.Arn}/stream/*"}'], name
    assert list(of_type("AWS::IAM::Policy")) == ["CommonPolicy"]
    assert list(of_type("AWS::IAM::ManagedPolicy")) == ["ConsoleReadPolicy", "ConsoleChangePolicy"]
    assert properties("CommonPolicy")["Roles"] == [ref(f"{function.capitalize()}Role") for function in FUNCTIONS]


# Actions of CloudWatch have no resources.
WITHOUT_RESOURCE = {"cloudwatch:GetMetricData", "cloudwatch:DescribeAlarms"}
CHANGES = {"PutItem", "UpdateItem", "DeleteItem", "SendMessage", "DeleteMessage", "PutEvents"}


def console_statements(policy: str) -> list:
    """Returns the statements of a policy of the console, with the key of the customer."""
    return [each["Fn::If"][1] if "Fn::If" in each else each for each in properties(policy)["PolicyDocument"]["Statement"]]


def test_policies_of_the_console_name_exact_actions_and_resources():
    """Nothing attaches them: whoever runs the console has them attached to a role of their own."""
    for policy in of_type("AWS::IAM::ManagedPolicy"):
        assert set(properties(policy)) == {"Description", "PolicyDocument"}, policy
        assert TEMPLATE["Outputs"][policy]["Value"] == ref(policy)
        for statement in console_statements(policy):
            actions = set(as_list(statement["Action"]))
            assert statement["Effect"] == "Allow" and not [action for action in actions if "*" in action], policy
            assert not {"dynamodb:Scan", "secretsmanager:GetSecretValue"} & actions, policy
            assert ("*" in as_list(statement["Resource"])) == (actions <= WITHOUT_RESOURCE), actions


def test_policy_for_changes_deletes_few_kinds_of_items():
    deleting = [each for each in console_statements("ConsoleChangePolicy") if "dynamodb:DeleteItem" in as_list(each["Action"])]
    keys = {each["Resource"]["Fn::GetAtt"][0]: each["Condition"] for each in deleting}
    condition = lambda *patterns: {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(patterns)}}
    assert all(each["Action"] == "dynamodb:DeleteItem" for each in deleting)
    assert keys == {"InboxTable": condition("chunk:*", "conflict:*", "do-not-call:*", "*/replaced/*"), "CallsTable": condition("do-not-call:*")}


def test_policy_for_changes_runs_the_reconciler_which_never_dials():
    (running,) = [each for each in console_statements("ConsoleChangePolicy") if "lambda:InvokeFunction" in as_list(each["Action"])]
    assert (running["Action"], running["Resource"]) == ("lambda:InvokeFunction", alias("reconciler"))


def test_policy_for_looking_stores_nothing_but_plans():
    writing = [each for each in console_statements("ConsoleReadPolicy") if CHANGES & {action.split(":")[1] for action in as_list(each["Action"])}]
    (plans,) = writing
    assert (plans["Action"], plans["Resource"]) == ("dynamodb:PutItem", get_att("InboxTable", "Arn"))
    assert plans["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["plan:*", "chunk:*:plan:*"]}}
    indexes = [index["IndexName"] for table in ("InboxTable", "CallsTable") for index in properties(table)["GlobalSecondaryIndexes"]]
    (listing,) = [each for each in console_statements("ConsoleReadPolicy") if each["Action"] == "dynamodb:Query"]
    assert sorted(each["Fn::Sub"].rsplit("/", 1)[1] for each in listing["Resource"]) == sorted(indexes), "every index and no table"


def test_functions_may_send_traces_only_if_tracing_is_active():
    assert TEMPLATE["Parameters"]["Tracing"]["Default"] == "PassThrough"
    for function in FUNCTIONS:
        assert properties(name_of(function))["TracingConfig"] == {"Mode": ref("Tracing")}, function
    assert TEMPLATE["Conditions"]["IsTraced"] == {"Fn::Equals": [ref("Tracing"), "Active"]}
    traces, _ = properties("CommonPolicy")["PolicyDocument"]["Statement"]
    assert traces["Action"] == ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
    assert traces["Effect"] == {"Fn::If": ["IsTraced", "Allow", "Deny"]}
    # Lambda refuses to make a traced function whose role does not have these permissions yet.
    assert all(RESOURCES[name_of(function)]["DependsOn"] == "CommonPolicy" for function in FUNCTIONS)


def test_a_key_of_the_customer_encrypts_all_that_is_stored():
    """Whoever adds a table, a queue, a secret or a log group must give it the key too."""
    key = {"Fn::If": ["HasKmsKey", ref("KmsKeyArn"), ref("AWS::NoValue")]}
    for table in of_type("AWS::DynamoDB::Table").values():
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": key}
    for queue in of_type("AWS::SQS::Queue").values():
        assert queue["KmsMasterKeyId"] == key
        assert queue["SqsManagedSseEnabled"] == {"Fn::If": ["HasKmsKey", ref("AWS::NoValue"), True]}
    for kind in ("AWS::SecretsManager::Secret", "AWS::Logs::LogGroup"):
        assert all(each["KmsKeyId"] == key for each in of_type(kind).values()), kind
    _, encryption = properties("CommonPolicy")["PolicyDocument"]["Statement"]
    condition, statement, nothing = encryption["Fn::If"]
    assert (condition, nothing) == ("HasKmsKey", ref("AWS::NoValue"))
    assert statement["Resource"] == ref("KmsKeyArn") and not [action for action in statement["Action"] if "*" in action]
    through = statement["Condition"]["StringEquals"]["kms:ViaService"]
    assert len(through) == 3
    # CommonPolicy refers to roles, and these to what uses the key. So a running stack gets this permission last, and the page asks for a key
    # policy that permits the same before.
    page = (ROOT / "docs" / "deploy.md").read_text()
    (text,) = re.findall(r'^      (\{"Effect": "Allow", "Principal": \{"AWS": "\*"\},\n.*?\}\}\})$', page, re.MULTILINE | re.DOTALL)
    of_key = json.loads(text)
    assert [action for action in statement["Action"] if not any(fnmatch(action, allowed) for allowed in of_key["Action"])] == []
    services = [service["Fn::Sub"].replace("${AWS::Region}", "REGION").replace("${AWS::URLSuffix}", "amazonaws.com") for service in through]
    assert of_key["Condition"]["StringEquals"] == {"kms:CallerAccount": "ACCOUNT_ID", "kms:ViaService": services}
    for mapping in of_type("AWS::Lambda::EventSourceMapping"):
        assert "CommonPolicy" in RESOURCES[mapping]["DependsOn"], mapping


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


def test_every_route_leads_to_the_alias_of_a_function_that_it_may_invoke():
    permitted = {
        (json.dumps(permission["FunctionName"]), permission["SourceArn"]["Fn::Sub"].rsplit("${HttpApi}/*/", 1)[1])
        for permission in of_type("AWS::Lambda::Permission").values()
        if permission["Principal"] == "apigateway.amazonaws.com"
    }
    for route in of_type("AWS::ApiGatewayV2::Route").values():
        integration = re.fullmatch(r"integrations/\$\{(\w+)\}", route["Target"]["Fn::Sub"])[1]
        function = alias(ROUTES[route["RouteKey"]])
        assert properties(integration)["IntegrationUri"] == {"Fn::Sub": f"${{{name_of(ROUTES[route['RouteKey']])}.Arn}}:live"}
        path = route["RouteKey"].replace(" ", "")
        # One permission for both routes of the webhooks, with a wildcard in the place of the path parameter.
        path = "POST/webhooks/*" if path.startswith("POST/webhooks/") else path
        assert (json.dumps(function), path) in permitted
    assert len(permitted) == len(ROUTES) - 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_sam_local_finds_the_function_of_every_route():
    stacks, _ = SamLocalStackProvider.get_stacks(str(ROOT / "template.yaml"))
    found = {f"{method} {route.path}": route.function_name for route in ApiProvider(stacks).api.routes for method in route.methods}
    assert found == {key: name_of(function) for key, function in ROUTES.items()}


def test_the_stage_throttles_the_api_by_default_and_the_webhooks_by_route():
    """API Gateway keeps the setting of a route that is gone, and then refuses each later change of the stage. So only what differs is set."""
    (stage,) = of_type("AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": ref("ApiRatePerSecond"), "ThrottlingBurstLimit": ref("ApiBurst")}
    webhooks = {"ThrottlingRateLimit": ref("WebhookRatePerSecond"), "ThrottlingBurstLimit": ref("WebhookBurst")}
    assert stage["RouteSettings"] == {key: webhooks for key, function in ROUTES.items() if function == "ingress"}


def test_the_stage_comes_after_every_route_that_it_throttles():
    (stage,) = of_type("AWS::ApiGatewayV2::Stage")
    throttled = [name for name, route in of_type("AWS::ApiGatewayV2::Route").items() if route["RouteKey"] in properties(stage)["RouteSettings"]]
    assert sorted(RESOURCES[stage]["DependsOn"]) == sorted(throttled)


def test_a_line_of_the_access_log_is_json_whatever_is_missing():
    """API Gateway writes `-` for what a refused request does not have. A line that is not JSON would not be counted by HttpThrottlesFilter."""
    line = properties("HttpStage")["AccessLogSettings"]["Format"]
    assert json.loads(re.sub(r"\$context\.[\w.]+", "-", line.replace("$context.status", "429")))["status"] == 429


def test_refused_requests_are_counted_unless_they_only_read():
    pattern = properties("HttpThrottlesFilter")["FilterPattern"]
    routes = re.findall(r'\$\.route = "([^"]+)"', pattern)
    assert pattern == "{ ($.status = 429) && (%s) }" % " || ".join(f'($.route = "{route}")' for route in routes)
    counted = {key for key in ROUTES if any(fnmatch(key, route) for route in routes)}
    assert counted == {key for key in ROUTES if not key.startswith("GET ")}
    assert "-" in routes, "the limit of the account may refuse a webhook before its route is chosen"


# --- versions and deployments ----------------------------------------------------------------------------------------

# Parameters whose change never needs a version of its own, and why.
UNVERSIONED = {"Architecture": "other code comes with it", "AwsEndpointUrl": "only emulators have it"}


def test_everything_that_invokes_a_function_invokes_its_alias():
    mappings = {json.dumps(mapping["FunctionName"]) for mapping in of_type("AWS::Lambda::EventSourceMapping").values()}
    assert mappings == {json.dumps(alias(function)) for function in ("consumer", "relay", "scheduler", "dialer", "reconciler")}
    for config in of_type("AWS::Lambda::EventInvokeConfig").values():
        assert config["Qualifier"] == "live" or names_in(config["Qualifier"]) <= {f"{name_of(each)}Aliaslive" for each in FUNCTIONS}
    for output in ("SchedulerFunctionName", "ReconcilerFunctionName"):
        assert TEMPLATE["Outputs"][output]["Value"]["Fn::Sub"].endswith("Function}:live")
    versions, aliases = of_type("AWS::Lambda::Version"), of_type("AWS::Lambda::Alias")
    assert len(versions) == len(aliases) == len(FUNCTIONS)


def longest(parameter: dict) -> int:
    """Returns the number of characters of the longest value that a parameter allows."""
    if "AllowedValues" in parameter:
        return max(len(str(value)) for value in parameter["AllowedValues"])
    return len(str(parameter["MaxValue"])) if parameter["Type"] == "Number" else parameter["MaxLength"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_gets_a_new_version_when_a_parameter_changes(function):
    """The SAM transform hashes the names of the parameters, not their values, so the description of the version has to change.

    It must not have others: Lambda refuses a new version of a function that has not changed.
    """
    function_properties = dict(properties(name_of(function)))
    # These belong to the function and not to a version of it.
    function_properties.pop("ReservedConcurrentExecutions", None)
    used = names_in(function_properties) & set(TEMPLATE["Parameters"])
    (version,) = [each for each in of_type("AWS::Lambda::Version").values() if each["FunctionName"] == ref(name_of(function))]
    described = re.findall(r"\$\{(\w+)\}", version["Description"]["Fn::Sub"])
    assert sorted(described) == sorted(used - set(UNVERSIONED))
    assert sum(longest(TEMPLATE["Parameters"][name]) + 1 for name in described) - 1 <= 256


def test_a_deployment_that_failed_keeps_no_version():
    """Lambda refuses to publish a version again that it has. A version that was kept would make a repetition of the deployment fail."""
    versions = {name: resource for name, resource in RESOURCES.items() if resource["Type"] == "AWS::Lambda::Version"}
    assert len(versions) == len(FUNCTIONS)
    for version in versions.values():
        assert version["DeletionPolicy"] == "Delete" and "UpdateReplacePolicy" not in version


def test_by_default_nothing_of_code_deploy_is_made():
    assert not [name for name, resource in RESOURCES.items() if resource["Type"].startswith("AWS::CodeDeploy::")]
    assert not [name for name in of_type("AWS::Lambda::Alias") if "UpdatePolicy" in RESOURCES[name]]


def test_a_gradual_deployment_returns_to_the_old_versions_if_an_alarm_fires():
    gradual = expand(ROOT / "template.yaml", {"Deployment": "Canary10Percent15Minutes"})["Resources"]
    groups = {name: resource["Properties"] for name, resource in gradual.items() if resource["Type"] == "AWS::CodeDeploy::DeploymentGroup"}
    assert len(groups) == len(FUNCTIONS)
    for group in groups.values():
        _, alarms, _ = group["AlarmConfiguration"]["Fn::If"]
        assert [each["Name"] for each in alarms["Alarms"]] == [ref("P2ReleaseErrorsAlarm"), ref("P1HttpErrorRateAlarm")]
        assert group["AutoRollbackConfiguration"]["Enabled"] is True
        assert group["DeploymentConfigName"] == {"Fn::Sub": ["CodeDeployDefault.Lambda${ConfigName}", {"ConfigName": "Canary10Percent15Minutes"}]}
    for function in FUNCTIONS:
        assert gradual[f"{name_of(function)}Aliaslive"]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"] == ref(f"{name_of(function)}DeploymentGroup")


def test_every_way_to_deploy_is_gradual_but_all_at_once():
    ways = TEMPLATE["Parameters"]["Deployment"]["AllowedValues"]
    assert TEMPLATE["Mappings"]["Deployments"] == {way: {"IsGradual": "false" if way == "AllAtOnce" else "true"} for way in ways}
    assert TEMPLATE["Parameters"]["Deployment"]["Default"] == "AllAtOnce"


def test_the_alarm_of_a_deployment_sees_the_new_version_of_each_function():
    alarm = properties("P2ReleaseErrorsAlarm")
    for function, (_, metric, dimensions) in zip(FUNCTIONS, metrics_of(alarm), strict=True):
        name = name_of(function)
        (version,) = [each for each, of in of_type("AWS::Lambda::Version").items() if of["FunctionName"] == ref(name)]
        assert metric == "Errors"
        assert dimensions == {"FunctionName": ref(name), "Resource": {"Fn::Sub": f"${{{name}}}:live"}, "ExecutedVersion": get_att(version, "Version")}


def test_environments_differ_in_nothing_but_names_and_parameters():
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())
    environments = [name for name in config if name != "version"]
    assert environments == ["default", "staging", "prod"]
    for environment in environments:
        settings = config[environment]
        settings["global"].pop("parameters")
        assert f"environment={environment}" in settings["deploy"]["parameters"].pop("tags")
        assert settings == config["default"], environment
        given = parameters(environment, ["Architecture=x86_64"])
        assert given["Architecture"] == "x86_64" and set(given) <= set(TEMPLATE["Parameters"])
        for name, value in given.items():
            assert value in TEMPLATE["Parameters"][name].get("AllowedValues", [value])


def test_the_sample_of_the_check_counts_the_parts_of_the_stack():
    page = (ROOT / "docs" / "first-deployment.md").read_text()
    counted = {"AWS::Lambda::Function": "functions are active", "AWS::Lambda::EventSourceMapping": "event sources are enabled", "AWS::Scheduler::Schedule": "schedules are enabled"}
    for kind, words in counted.items():
        parts = [each for each in RESOURCES.values() if each["Type"] == kind]
        assert [each for each in parts if "Condition" in each] == []
        assert re.findall(rf"(\d+) {words}", page) == [str(len(parts))], kind


# --- environment variables -------------------------------------------------------------------------------------------

# tests/it/layout/configuration.rs compares the variables with those that each function reads.
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_an_endpoint_only_in_an_emulator(function):
    # Not set on AWS, where the SDK finds the endpoints.
    variables = properties(name_of(function))["Environment"]["Variables"]
    assert variables["AWS_ENDPOINT_URL"] == {"Fn::If": ["HasEndpointUrl", ref("AwsEndpointUrl"), ref("AWS::NoValue")]}


def test_every_number_of_shards_that_the_template_allows_can_be_read():
    parameter = TEMPLATE["Parameters"]["IndexShards"]
    source = (ROOT / "shared" / "aws" / "src" / "shards.rs").read_text()
    (largest,) = map(int, re.findall(r"SHARDS_MAX: u64 = (\d+);", source))
    allowed = [shards for shards in range(10 * largest) if re.match(parameter["AllowedPattern"], str(shards))]
    assert allowed == list(range(1, largest + 1))
    longest_text = f"{largest},2027-01-01T00:00:00Z={largest}"
    assert re.match(parameter["AllowedPattern"], longest_text) and len(longest_text) <= parameter["MaxLength"]
    for refused in ("4,8", "4,2027-02-30T00:00:00Z=8", "4,2027-13-01T00:00:00Z=8", "4,2027-01-01T24:00:00Z=8", "4,2027-01-01T00:00:00Z=0"):
        assert not re.match(parameter["AllowedPattern"], refused), refused


def allows(parameter: str, value: str) -> bool:
    """True if CloudFormation takes the text as the value of the parameter."""
    declared = TEMPLATE["Parameters"][parameter]
    return bool(re.fullmatch(declared["AllowedPattern"], value)) and len(value) <= declared["MaxLength"]


# tests/it/layout/configuration.rs draws texts from the patterns, and reads them as the functions do.
@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("OutcomeProviders", "default,x-acme-voice-2"),
        ("OutcomeProviders", "default,x-aaaaaaaaaaaaaaaaaaaaaa"),
        ("OutcomeProviders", "retell,vapi,elevenlabs,generic"),
        ("CallingWindow", ""),
        ("CallingWindow", "Europe/London 09:00-18:00 mon,tue 2026-12-25,2028-02-29"),
        ("CallingWindow", "America/Argentina/Buenos_Aires 20:00-02:00 2026-12-31"),
        ("CallingWindow", "Etc/GMT+5 00:00-24:00"),
        ("DialRates", ""),
        ("DialRates", "*=1"),
        ("DialRates", "retell=0.1,twilio=200/1000,*=199.5"),
        ("DialRates", "retell=1,*=1"),
    ],
)
def test_a_value_that_functions_can_read_is_allowed(parameter, value):
    assert allows(parameter, value)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("OutcomeProviders", "default,retel"),
        ("OutcomeProviders", "x-a,x-b,x-c,x-d,x-e,x-f,x-g,x-h,x-i"),
        ("OutcomeProviders", "x-acme-"),
        ("OutcomeProviders", "x-aaaaaaaaaaaaaaaaaaaaaaa"),
        ("CallingWindow", "Europe/London"),
        ("CallingWindow", "Europe/London 25:00-18:00"),
        ("CallingWindow", "Europe/London 24:00-18:00"),
        ("CallingWindow", "Europe/London 09:00-18:00 mom"),
        ("CallingWindow", "Europe/London 09:00-18:00 2026-02-30"),
        ("CallingWindow", "Europe/London 09:00-18:00 2026-02-29"),
        ("CallingWindow", "UTC 09:00-09:00"),
        ("DialRates", "retell=1,twilio=0"),
        ("DialRates", "retell=0.05"),
        ("DialRates", "retell=200.5"),
        ("DialRates", "retell=500"),
        ("DialRates", "retell=1/0"),
        ("DialRates", "retell=1/9999999999"),
        ("DialRates", "retell=1,retell=2"),
        ("DialRates", "*=1,retell=1,*=1/5"),
    ],
)
def test_a_value_that_no_function_can_read_is_refused(parameter, value):
    assert not allows(parameter, value)


# --- queues and mappings ---------------------------------------------------------------------------------------------


def test_whoever_places_calls_or_asks_about_them_does_so_at_the_same_address():
    for function in ("dialer", "reconciler"):
        variables = properties(name_of(function))["Environment"]["Variables"]
        assert variables["PROVIDER_API_URL"] == ref("ProviderApiUrl")
    # An empty URL means the provider's own API.
    assert TEMPLATE["Parameters"]["ProviderApiUrl"]["Default"] == ""


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
    no_value, is_provisioned = ref("AWS::NoValue"), "HasConsumerPollers"
    assert mapping["ScalingConfig"] == {"Fn::If": [is_provisioned, no_value, {"MaximumConcurrency": ref("ConsumerMaxConcurrency")}]}
    # As many pollers at most as at least, so that the concurrency is bounded in this mode too.
    pollers = {"MinimumPollers": ref("ConsumerPollers"), "MaximumPollers": ref("ConsumerPollers")}
    assert mapping["ProvisionedPollerConfig"] == {"Fn::If": [is_provisioned, pollers, no_value]}
    assert TEMPLATE["Parameters"]["ConsumerPollers"]["Default"] == 0


def test_claims_go_through_a_fifo_queue_that_keeps_them_no_longer_than_they_are_good_for():
    queue = properties("DialQueue")
    assert queue["QueueName"] == {"Fn::Sub": "${AWS::StackName}-dial.fifo"}
    assert (queue["FifoQueue"], queue["DeduplicationScope"], queue["FifoThroughputLimit"]) == (True, "messageGroup", "perMessageGroupId")
    # The reconciler returns a claim after five minutes, so a dead-letter queue would hold only useless messages.
    assert 5 * 60 < queue["MessageRetentionPeriod"] <= 3600
    assert "RedrivePolicy" not in queue


def test_the_dialer_takes_one_claim_at_a_time_and_its_concurrency_is_bounded():
    mapping = properties("DialerMapping")
    assert mapping["EventSourceArn"] == DIALS
    assert mapping["BatchSize"] == 1
    # No claim is worth a second delivery.
    assert "FunctionResponseTypes" not in mapping
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": ref("DialerMaxConcurrency")}
    assert TEMPLATE["Parameters"]["DialerMaxConcurrency"]["Default"] == 30
    # The scheduler claims no more calls than these dialers can place.
    assert properties("SchedulerFunction")["Environment"]["Variables"]["DIALER_MAX_CONCURRENCY"] == ref("DialerMaxConcurrency")


def test_a_shard_has_one_worker_and_no_message_outlives_the_next_schedules():
    queue, mapping = properties("RepairQueue"), properties("RepairQueueMapping")
    assert (queue["FifoQueue"], queue["DeduplicationScope"], queue["FifoThroughputLimit"]) == (True, "messageGroup", "perMessageGroupId")
    # While a worker runs, its message is hidden. The next scheduled run finds the same calls, so a message is never worth a second try.
    assert properties("ReconcilerFunction")["Timeout"] < queue["VisibilityTimeout"] <= 60
    assert queue["VisibilityTimeout"] < queue["MessageRetentionPeriod"] <= 120
    assert "RedrivePolicy" not in queue
    assert mapping["EventSourceArn"] == get_att("RepairQueue", "Arn")
    assert mapping["BatchSize"] == 1
    assert 2 <= mapping["ScalingConfig"]["MaximumConcurrency"] <= 10


def test_a_function_that_sends_messages_to_itself_is_not_stopped_as_a_loop():
    """By default Lambda drops an invocation after some 16 in a row. A loop may also lead through the queues of other functions."""
    reads, sends = {}, {}
    for function in FUNCTIONS:
        mappings = [each for each in of_type("AWS::Lambda::EventSourceMapping").values() if each["FunctionName"] == alias(function)]
        reads[function] = {json.dumps(each["EventSourceArn"]) for each in mappings}
        granted = [each for each in statements(properties(f"{function.capitalize()}Role")) if "sqs:SendMessage" in as_list(each["Action"])]
        sends[function] = {json.dumps(queue) for each in granted for queue in as_list(each["Resource"])}
    invokes = {function: {other for other in FUNCTIONS if sends[function] & reads[other]} for function in FUNCTIONS}
    for _ in FUNCTIONS:
        invokes = {function: others.union(*(invokes[other] for other in others)) for function, others in invokes.items()}
    loops = {function for function in FUNCTIONS if function in invokes[function]}
    assert loops == {"scheduler", "reconciler"}
    for function in FUNCTIONS:
        assert properties(name_of(function)).get("RecursiveLoop") == ("Allow" if function in loops else None), function


def test_the_relay_gives_up_before_the_stream_forgets_and_says_so():
    mapping = properties("RelayMapping")
    assert mapping["EventSourceArn"] == get_att("CallsTable", "StreamArn")
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BisectBatchOnFunctionError"] is True
    # The age alone ends the retries. A failing run takes a fraction of a second, so any number would end them hours too early.
    assert mapping["MaximumRetryAttempts"] == -1
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
    found = properties(table)
    assert found["BillingMode"] == {"Fn::If": ["IsProvisioned", "PROVISIONED", "PAY_PER_REQUEST"]}
    assert found["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert found["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert found["DeletionProtectionEnabled"] == {"Fn::If": ["IsProtected", True, False]}


def test_what_is_stored_nowhere_else_survives_the_stack_but_not_a_failed_first_deployment():
    kept = {name for name, resource in RESOURCES.items() if resource.get("DeletionPolicy") == "RetainExceptOnCreate"}
    assert kept == {*of_type("AWS::DynamoDB::Table"), *of_type("AWS::SecretsManager::Secret"), "EventsDlq", "RelayFailuresQueue"}
    assert all(RESOURCES[name]["UpdateReplacePolicy"] == "Retain" for name in kept)
    # A new stack of the same name must not find their names taken.
    for name in kept:
        physical_name = json.dumps([properties(name).get(key, "") for key in ("TableName", "Name", "QueueName")])
        assert physical_name == '["", "", ""]' or "AWS::StackId" in physical_name, name


def test_the_indexes_of_the_calls_hold_no_personal_data():
    """With more attributes, every write of a call would copy phone numbers and names into the indexes."""
    indexes = {index["IndexName"]: index["Projection"] for index in properties("CallsTable")["GlobalSecondaryIndexes"]}
    keys = {"ProjectionType": "KEYS_ONLY"}
    counted = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["in_flight"]}
    assert indexes == {"by_wake": counted, "by_appointment": keys, "by_party": keys}


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
    return [(each["Namespace"], each["MetricName"], {one["Name"]: one["Value"] for one in each.get("Dimensions", [])}) for each in stats]


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_has_its_severity_in_its_name_and_wakes_somebody(name):
    alarm = ALARMS[name]
    severity, words = re.fullmatch(r"(P[123])(\w+)Alarm", name).groups()
    kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", words).lower()
    assert alarm["AlarmName"] == {"Fn::Sub": f"${{AWS::StackName}}-{severity}-{kebab}"}
    assert alarm["AlarmActions"] == alarm["OKActions"] == ALARM_ACTION
    assert RESOURCES[name].get("Condition") == (OF_A_PARAMETER.get(name) or condition(severity, "Metrics" in alarm))


def test_the_url_of_ingress_leads_to_its_alias_and_may_be_used_by_everybody_through_the_url_alone():
    url, *permissions = of_condition("HasWebhookUrl", {"AWS::Lambda::Url", "AWS::Lambda::Permission"})
    assert url == {"TargetFunctionArn": alias("ingress"), "AuthType": "NONE"}
    common = {"FunctionName": alias("ingress"), "Principal": "*"}
    assert permissions == [
        common | {"Action": "lambda:InvokeFunctionUrl", "FunctionUrlAuthType": "NONE"},
        common | {"Action": "lambda:InvokeFunction", "InvokedViaFunctionUrl": True},
    ]


def of_condition(condition: str, kinds: set[str]) -> list[dict]:
    return [each["Properties"] for each in RESOURCES.values() if each.get("Condition") == condition and each["Type"] in kinds]


# Alarms on what exists only if a parameter asks for it.
OF_A_PARAMETER = {
    "P2ReleaseErrorsAlarm": "IsGradual",
    "P1WebhookUrlErrorRateAlarm": "HasWebhookUrl",
    "P1IngressThrottledAlarm": "HasWebhookUrl",
}


def condition(severity: str, has_math: bool) -> str | None:
    """Local emulators accept neither metric math nor what depends on it."""
    if severity == "P1":
        return "OnAws" if has_math else None
    return f"Has{severity}MathAlarms" if has_math else f"Has{severity}Alarms"


def test_the_parameter_leaves_out_the_milder_alarms():
    assert TEMPLATE["Parameters"]["AlarmLevel"]["AllowedValues"] == ["P1", "P2", "P3"]
    assert TEMPLATE["Parameters"]["AlarmLevel"]["Default"] == "P2"
    conditions = TEMPLATE["Conditions"]
    assert conditions["HasP2Alarms"] == {"Fn::Not": [{"Fn::Equals": [ref("AlarmLevel"), "P1"]}]}
    assert conditions["HasP3Alarms"] == {"Fn::Equals": [ref("AlarmLevel"), "P3"]}
    for severity in ("P2", "P3"):
        assert conditions[f"Has{severity}MathAlarms"] == {"Fn::And": [{"Condition": "OnAws"}, {"Condition": f"Has{severity}Alarms"}]}
    assert RESOURCES["FewWebhooksDetector"]["Condition"] == RESOURCES["P2FewWebhooksAlarm"]["Condition"]


# Alarms that tell of calls or events that are lost, doubled or stuck. Every stack has them unless somebody asks for P1 alone.
TELL_OF_CALLS = {
    "P1DeadLettersAlarm", "P1RelayFailuresAlarm", "P1EventsNotFoldedAlarm", "P1RelayAgeAlarm", "P1HttpErrorRateAlarm", "P1RequestsThrottledAlarm",
    "P1SchedulerNotRunningAlarm", "P1ReconcilerNotRunningAlarm", "P1SecretRefreshFailedAlarm", "P1ProviderDisabledAlarm",
    "P2RunErrorsAlarm", "P2RejectedWebhooksAlarm", "P2FewWebhooksAlarm", "P2StuckDialingAlarm", "P2TimeoutsAlarm", "P2DialRefusalsAlarm",
    "P2RepairBehindAlarm",
    "P2CircuitOpenAlarm", "P2DialInDoubtAlarm", "P2DialledBeforeAlarm", "P2DialFailedAlarm", "P2DialAccountMissingAlarm", "P2DialQueueAgeAlarm",
    "P2DialUnconfiguredAlarm", "P2RelaySkippedAlarm", "P2RefoldLimitAlarm", "P2CallLimitAlarm", "P2ConflictingBodyAlarm", "P2DriftFoundAlarm",
    "P2DriftCheckFailingAlarm",
}  # fmt: skip


def test_no_alarm_that_tells_of_a_lost_doubled_or_stuck_call_is_left_out_by_default():
    by_default = {name for name in ALARMS if name[:2] in ("P1", "P2")} - OF_A_PARAMETER.keys()
    assert by_default - TELL_OF_CALLS == {"P2LatencyAlarm"} and TELL_OF_CALLS <= by_default


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("ApproximateNumberOfMessagesVisible", get_att("EventsDlq", "QueueName")),
        ("ApproximateNumberOfMessagesVisible", get_att("RelayFailuresQueue", "QueueName")),
        ("unfolded_ms", "reconciler"),
        ("ApproximateAgeOfOldestMessage", get_att("DialQueue", "QueueName")),
        ("AsyncEventsReceived", ref("SchedulerFunction")),
        ("AsyncEventsReceived", ref("ReconcilerFunction")),
        ("AsyncEventsDropped", ref("SchedulerFunction")),
        ("AsyncEventsDropped", ref("ReconcilerFunction")),
        ("IteratorAge", ref("RelayFunction")),
        ("5xx", ref("HttpApi")),
        *[(metric, ref(name_of(function))) for metric in ("Errors", "Throttles") for function in FUNCTIONS],
        *[(f"{kind}ThrottleEvents", ref(table)) for kind in ("Read", "Write") for table in ("InboxTable", "CallsTable")],
    ],
)
def test_somebody_is_woken(metric, value):
    assert [name for name, alarm in ALARMS.items() for _, found, dimensions in metrics_of(alarm) if found == metric and value in dimensions.values()]


def test_the_throttles_of_every_table_and_index_wake_somebody():
    """A throttled index throttles the writes of its table, and DynamoDB counts these for the index alone."""
    tables = {name: [None, *(index["IndexName"] for index in properties(name)["GlobalSecondaryIndexes"])] for name in of_type("AWS::DynamoDB::Table")}
    wanted = {(f"{kind}ThrottleEvents", name, index) for kind in ("Read", "Write") for name, indexes in tables.items() for index in indexes}
    watched = [
        (metric, dimensions["TableName"]["Ref"], dimensions.get("GlobalSecondaryIndexName"))
        for alarm in ALARMS.values()
        for namespace, metric, dimensions in metrics_of(alarm)
        if namespace == "AWS/DynamoDB"
    ]
    assert sorted(watched, key=str) == sorted(wanted, key=str)


def test_an_alarm_on_throttles_has_no_gaps():
    """The reference of PutMetricAlarm says that such an alarm keeps its state without values. It would never tell of a second time."""
    for name, alarm in ALARMS.items():
        if any(namespace == "AWS/DynamoDB" for namespace, _, _ in metrics_of(alarm)):
            (expression,) = [query["Expression"] for query in alarm["Metrics"] if query.get("ReturnData") is True]
            assert re.fullmatch(r"FILL\(.*, 0\)", expression), name


def test_tables_with_indexes_are_made_one_after_the_other():
    """CloudFormation's reference of AWS::DynamoDB::Table asks for it: DynamoDB may refuse to make several at once."""
    tables = [name for name, resource in TEMPLATE["Resources"].items() if resource["Type"] == "AWS::DynamoDB::Table"]
    assert [TEMPLATE["Resources"][name].get("DependsOn") for name in sorted(tables, reverse=True)] == [None, "InboxTable"]


@pytest.mark.parametrize("name", ALARMS)
def test_an_alarm_looks_at_no_more_metrics_than_cloudwatch_allows_and_at_each_of_them(name):
    queries = ALARMS[name].get("Metrics", [])
    stats = [query["Id"] for query in queries if "MetricStat" in query]
    # Source: the page "Limits" of CloudWatch alarms in the AWS documentation.
    assert len(stats) <= 10
    used = {word for query in queries for word in re.findall(r"\w+", query.get("Expression", ""))}
    assert set(stats) <= used or not any("Expression" in query for query in queries)


def test_the_price_of_the_alarms_is_in_the_documentation():
    """An alarm costs $0.10 a month for each metric that it looks at, and a band counts as two more."""
    page = (ROOT / "docs" / "cost.md").read_text()
    described = TEMPLATE["Parameters"]["AlarmLevel"]["Description"]
    for level in ("P1", "P2", "P3"):
        alarms = [alarm for name, alarm in ALARMS.items() if name[:2] <= level and name not in OF_A_PARAMETER]
        looked_at = sum(len(metrics_of(alarm)) + (2 if "ThresholdMetricId" in alarm else 0) for alarm in alarms)
        assert f"| `{level}` | {len(alarms)} | {looked_at} | {looked_at / 10:.2f} |" in page
        assert f"{level} {'costs ' if level == 'P1' else ''}${looked_at / 10:.2f}" in described
        if level == TEMPLATE["Parameters"]["AlarmLevel"]["Default"]:
            assert f"{len(alarms)} alarms on {looked_at} metrics, $0.10 each | {looked_at / 10:.2f} |" in page
            assert f"none of {len(alarms)} alarms fires" in (ROOT / "docs" / "first-deployment.md").read_text()


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


def test_the_dashboard_names_no_alarm_that_the_stack_does_not_have():
    text, lists = properties("StackDashboard")["DashboardBody"]["Fn::Sub"]
    named = lambda body: set(re.findall(r"\$\{AWS::StackName\}-(P\d-[\w-]+)", body))  # noqa: E731
    found = {condition: named(there["Fn::Sub"]) for condition, there, otherwise in (each["Fn::If"] for each in lists.values()) if otherwise == ""}
    expected = {condition: set() for condition in (*OF_A_PARAMETER.values(), "HasP2Alarms", "HasP3Alarms")}
    for name, alarm in ALARMS.items():
        if (condition := RESOURCES[name].get("Condition")) not in (None, "OnAws"):
            expected[condition.replace("Math", "")] |= named(alarm["AlarmName"]["Fn::Sub"])
    assert found == expected
    assert all(each.startswith("P1-") for each in named(text))


# Metrics that AWS makes itself. Source: the page of each service in the AWS documentation, "CloudWatch metrics" or "metrics and dimensions".
AWS_METRICS = {
    "AWS/Lambda": (
        {"Invocations", "AsyncEventsReceived", "AsyncEventsDropped", "Errors", "Throttles", "Duration", "IteratorAge", "UrlRequestCount", "Url5xxCount"},
        {"FunctionName", "Resource", "ExecutedVersion"},
    ),
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
    own = set(re.findall(r'Metric::new\("(\w+)", "(\w+)"\)', source))
    by_provider = set(re.findall(r'Metric::new\("(\w+)", "(\w+)"\)\.by_provider\(\)', source))
    assert len(by_provider) == source.count(".by_provider()")
    (counted,) = resolve(properties("HttpThrottlesFilter")["MetricTransformations"])
    # A metric filter can take a dimension only from a field of the line.
    assert counted["MetricNamespace"] == "Switchhook/local" and "Dimensions" not in counted
    names = {"AWS::StackName": "local"}
    for namespace, name, dimensions in [
        *(each for alarm in ALARMS.values() for each in metrics_of(resolve(alarm))),
        *(each for widget in dashboard() for each in metrics_shown(widget)),
    ]:
        if namespace == "Switchhook":
            assert dimensions.get("stack") == names["AWS::StackName"], name
            assert (dimensions["function"], name) in own, f"{dimensions['function']} does not count {name}"
            assert "provider" not in dimensions or (dimensions["function"], name) in by_provider, f"{name} is not counted by provider"
        elif namespace == counted["MetricNamespace"]:
            assert (name, dimensions) == (counted["MetricName"], {})
        else:
            metrics, allowed = AWS_METRICS[namespace]
            assert name in metrics and set(dimensions) <= allowed, f"{namespace} {name}"


@pytest.mark.parametrize(
    ("name", "kinds", "section"),
    [("AttentionRule", ["dead_lettered", "quarantined"], "P1DeadLettersAlarm"), ("RetryingRule", ["retrying"], "P1EventsNotFoldedAlarm")],
)
def test_the_message_of_an_operator_event_names_the_events_and_their_section(name, kinds, section):
    rule = properties(name)
    assert RESOURCES[name]["Condition"] == "HasAlarmTopic"
    assert rule["EventPattern"] == {"source": ["switchhook"], "detail-type": ["operator.attention"], "detail": {"kind": kinds}}
    (target,) = rule["Targets"]
    assert target["Arn"] == ref("AlarmTopicArn")
    text = target["InputTransformer"]["InputTemplate"]["Fn::Sub"]
    assert set(re.findall(r"<(\w+)>", text)) == set(target["InputTransformer"]["InputPathsMap"])
    assert "events" in target["InputTransformer"]["InputPathsMap"]
    assert re.findall(r"\w+Alarm\b", text) == [section] and section in ALARMS


def test_every_kind_of_trouble_that_is_published_has_a_rule():
    event = json.loads((ROOT / "infra" / "events" / "operator.json").read_text())
    (kinds,) = re.findall(r'"kind": .*?"enum": (\[.*?\])', json.dumps(event))
    rules = of_type("AWS::Events::Rule").values()
    told = [kind for rule in rules for kind in rule["EventPattern"].get("detail", {}).get("kind", [])]
    assert sorted(told) == sorted(json.loads(kinds))


@pytest.mark.parametrize("function", ["scheduler", "reconciler"])
def test_what_runs_every_minute_ends_within_it_and_is_not_repeated(function):
    schedule = properties(f"{function.capitalize()}Schedule")
    assert schedule["ScheduleExpression"] == "rate(1 minute)"
    assert schedule["Target"]["Arn"] == alias(function)
    assert schedule["Target"]["Input"] == "{}"
    assert schedule["Target"]["RetryPolicy"]["MaximumRetryAttempts"] == 0
    assert properties(name_of(function))["Timeout"] < 60


def test_drift_is_looked_for_every_hour():
    schedule = properties("DriftSchedule")
    assert schedule["ScheduleExpression"] == "rate(1 hour)"
    assert schedule["Target"]["Arn"] == alias("reconciler")
    # The event that selects the drift check.
    assert json.loads(schedule["Target"]["Input"]) == {"run": "drift"}
    assert 'get("run").and_then(Value::as_str) == Some("drift")' in (ROOT / "functions" / "reconciler" / "src" / "lib.rs").read_text()
    assert len(of_type("AWS::Scheduler::Schedule")) == 3


def test_nothing_that_is_not_there_sets_off_an_alarm():
    """CloudWatch evaluates an alarm over the time before it was created, which has no data. So missing data must not breach on a new stack."""
    assert {alarm["TreatMissingData"] for alarm in ALARMS.values()} == {"notBreaching"}
    # Silence is an alarm all the same: these have a second metric whose values are there as long as the stack is.
    for name in ("P1SchedulerNotRunningAlarm", "P1ReconcilerNotRunningAlarm"):
        alarm = properties(name)
        # Only schedules invoke these functions asynchronously. The hourly drift check alone is one run.
        own, action = ("scheduler", "schedule_failed") if "Scheduler" in name else ("reconciler", "reconcile_failed")
        function = ref(name_of(own))
        assert metrics_of(alarm)[0] == ("AWS/Lambda", "AsyncEventsReceived", {"FunctionName": function})
        # Lambda repeats no run, so a run that fails is dropped.
        (config,) = [config for config in of_type("AWS::Lambda::EventInvokeConfig").values() if config["FunctionName"] == function]
        assert config["MaximumRetryAttempts"] == 0
        assert metrics_of(alarm)[1] == ("AWS/Lambda", "AsyncEventsDropped", {"FunctionName": function})
        assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 2)
        # The row of a call that cannot be read ends each run with an error, after everything else is done.
        assert metrics_of(alarm)[2] == ("Switchhook", action, {"stack": ref("AWS::StackName"), "function": own, "cause": "decode_call"})
        assert '"decode_call"' in (ROOT / "shared" / "aws" / "src" / "error.rs").read_text()
        (expression,) = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
        assert expression == "MIN([SUM([runs, 0 * waiting]), SUM([runs, unreadable, 0 - dropped, 0 * waiting])])"
        assert metrics_of(alarm)[3] == ("AWS/SQS", "ApproximateNumberOfMessagesVisible", {"QueueName": get_att("EventsQueue", "QueueName")})
