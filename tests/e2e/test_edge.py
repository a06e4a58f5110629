"""Tests of infra/edge.yaml, infra/forward.yaml, and the parts of template.yaml that belong to them."""

import json
import re
import shutil
import subprocess

import pytest
from samcli.yamlhelper import yaml_parse

from harness import ROOT
from test_template import RESOURCES, TEMPLATE, as_list, get_att, properties, ref, statements

EDGE = yaml_parse((ROOT / "infra" / "edge.yaml").read_text())
FORWARD = yaml_parse((ROOT / "infra" / "forward.yaml").read_text())
EDGE_SOURCE = ROOT / "shared" / "providers" / "src" / "config" / "edge.rs"


def edge(name: str) -> dict:
    return EDGE["Resources"][name]["Properties"]


def forward(name: str) -> dict:
    return FORWARD["Resources"][name]["Properties"]


def constant(name: str) -> str:
    """Returns the value of a constant in the code that reads the edge keys."""
    return re.search(rf'const {name}: \S+ = "?([\w-]+)"?;', EDGE_SOURCE.read_text())[1]


# --- edge ------------------------------------------------------------------------------------------------------------


def test_the_distribution_sends_the_headers_that_ingress_reads():
    distribution = edge("Distribution")["DistributionConfig"]
    (origin,) = distribution["Origins"]
    assert origin["OriginCustomHeaders"] == [{"HeaderName": constant("EDGE_KEY_HEADER"), "HeaderValue": ref("EdgeKey")}]
    (function,) = distribution["DefaultCacheBehavior"]["FunctionAssociations"]
    assert function == {"EventType": "viewer-request", "FunctionARN": get_att("ViewerAddressFunction", "FunctionARN")}
    assert f"headers['{constant('VIEWER_ADDRESS_HEADER')}']" in edge("ViewerAddressFunction")["FunctionCode"]


def test_the_edge_takes_exactly_the_keys_that_the_secret_takes():
    allowed = re.compile(EDGE["Parameters"]["EdgeKey"]["AllowedPattern"])
    shortest, longest = int(constant("KEY_CHARS_MIN")), int(constant("KEY_CHARS_MAX"))
    for key, is_allowed in [
        ("k" * shortest, True),
        ("k" * (shortest - 1), False),
        ("k" * longest, True),
        ("k" * (longest + 1), False),
        ("!~" * shortest, True),
        (" " + "k" * shortest, False),
        ("ä" + "k" * shortest, False),
    ]:
        assert bool(allowed.fullmatch(key)) == is_allowed, key
    assert EDGE["Parameters"]["EdgeKey"]["NoEcho"] is True
    # Nothing else shows the key.
    assert json.dumps(EDGE["Resources"]).count("EdgeKey") == 1 and "EdgeKey" not in json.dumps(EDGE["Outputs"])


@pytest.mark.parametrize("sent", [{}, {"x-switchhook-viewer-address": {"value": "192.0.2.66"}}])
@pytest.mark.parametrize("address", ["198.51.100.7", "2001:db8::7"])
def test_the_address_of_the_sender_replaces_what_the_sender_wrote(sent, address):
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the function of CloudFront was not run")
    event = {"viewer": {"ip": address}, "request": {"method": "POST", "headers": {"content-type": {"value": "text/plain"}} | sent}}
    code = f"{edge('ViewerAddressFunction')['FunctionCode']}\nconsole.log(JSON.stringify(handler({json.dumps(event)})));"
    done = subprocess.run([node, "-e", code], capture_output=True, text=True, timeout=30, check=True)
    expected = {"content-type": {"value": "text/plain"}, "x-switchhook-viewer-address": {"value": address}}
    assert json.loads(done.stdout) == {"method": "POST", "headers": expected}


def test_everything_of_a_webhook_reaches_the_stack_over_tls_and_nothing_is_cached():
    distribution = edge("Distribution")["DistributionConfig"]
    behavior = distribution["DefaultCacheBehavior"]
    assert "CacheBehaviors" not in distribution
    # AWS's policies CachingDisabled and AllViewerExceptHostHeader.
    assert behavior["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    assert behavior["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    assert "POST" in behavior["AllowedMethods"] and behavior["ViewerProtocolPolicy"] == "https-only"
    (origin,) = distribution["Origins"]
    assert origin["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only" and "OriginPath" not in origin
    # CloudFront must wait longer than API Gateway.
    assert origin["CustomOriginConfig"]["OriginReadTimeout"] * 1000 > properties("IngressIntegration")["TimeoutInMillis"]
    assert distribution["WebACLId"] == get_att("WebAcl", "Arn")


def test_no_rule_can_refuse_a_webhook_for_its_content():
    acl = edge("WebAcl")
    assert (acl["Scope"], acl["DefaultAction"]) == ("CLOUDFRONT", {"Allow": {}})
    assert [rule["Name"] for rule in acl["Rules"]] == ["webhooks-only", "rate-per-address", "reputation-list"]
    assert [rule["Priority"] for rule in acl["Rules"]] == [0, 1, 2]
    inspected = re.findall(r'"FieldToMatch": \{"(\w+)"', json.dumps(acl))
    assert sorted(inspected) == ["Method", "UriPath"]
    groups = re.findall(r'"Name": "(AWSManaged\w+)"', json.dumps(acl))
    assert groups == ["AWSManagedRulesAmazonIpReputationList"], "other groups look at bodies, or refuse hosting providers"
    assert EDGE["Parameters"]["ReputationList"]["Default"] == "Count"
    # Samples would hold signatures.
    assert '"SampledRequestsEnabled": true' not in json.dumps(acl) and "LoggingConfiguration" not in json.dumps(EDGE)


def test_only_webhooks_pass_the_edge():
    webhooks_only, rate = edge("WebAcl")["Rules"][:2]
    matches = webhooks_only["Statement"]["NotStatement"]["Statement"]["AndStatement"]["Statements"]
    found = [(each["ByteMatchStatement"]["PositionalConstraint"], each["ByteMatchStatement"]["SearchString"]) for each in matches]
    assert found == [("EXACTLY", "POST"), ("STARTS_WITH", "/webhooks/")]
    # The same answer as that of API Gateway's throttle, after which providers send a webhook again.
    assert rate["Action"] == {"Block": {"CustomResponse": {"ResponseCode": 429}}}
    limit = rate["Statement"]["RateBasedStatement"]
    assert (limit["Limit"], limit["AggregateKeyType"], limit["EvaluationWindowSec"]) == (ref("RequestsPerAddress"), "IP", 300)


# --- domain name of the API ------------------------------------------------------------------------------------------


def test_without_a_domain_name_the_stack_is_as_it_was():
    for name in ("HttpDomainName", "HttpDomainMapping"):
        assert RESOURCES[name]["Condition"] == "HasDomainName"
    assert properties("HttpApi")["DisableExecuteApiEndpoint"] == {"Fn::If": ["HasNoDefaultEndpoint", True, False]}
    for name, default in [("DomainName", ""), ("CertificateArn", ""), ("DisableDefaultEndpoint", "false"), ("ForwardUrl", "")]:
        assert TEMPLATE["Parameters"][name]["Default"] == default


def test_the_domain_name_leads_to_the_paths_that_providers_sign():
    # A mapping key would be part of the path, which Twilio signs and the routes match.
    assert properties("HttpDomainMapping") == {"ApiId": ref("HttpApi"), "DomainName": ref("HttpDomainName"), "Stage": ref("HttpStage")}
    (configuration,) = properties("HttpDomainName")["DomainNameConfigurations"]
    assert (configuration["EndpointType"], configuration["SecurityPolicy"]) == ("REGIONAL", "TLS_1_2")
    for output, path in (("ApiUrl", ""), ("WebhookUrl", "/webhooks/{provider}")):
        _, with_domain, without = TEMPLATE["Outputs"][output]["Value"]["Fn::If"]
        assert with_domain == {"Fn::Sub": f"https://${{DomainName}}{path}"}
        assert without["Fn::Sub"].startswith("https://${HttpApi}.execute-api.") and without["Fn::Sub"].endswith(path)


# --- forward ---------------------------------------------------------------------------------------------------------


def test_the_stack_hands_its_names_to_the_forwarding():
    nested = properties("ForwardStack")
    assert RESOURCES["ForwardStack"]["Condition"] == "Forwards"
    assert "      TemplateURL: infra/forward.yaml\n" in (ROOT / "template.yaml").read_text()
    expected = {name: ref(f"Forward{name}") for name in ("Url", "Key", "KeyHeader", "EventTypes", "RatePerSecond")}
    expected |= {"StackName": ref("AWS::StackName"), "EventBusName": ref("EventBus")}
    expected |= {name: ref(name) for name in ("AlarmTopicArn", "KmsKeyArn")}
    assert nested["Parameters"] == expected
    assert set(expected) == set(FORWARD["Parameters"])
    for name in ("KeyHeader", "RatePerSecond"):
        inner, outer = FORWARD["Parameters"][name], TEMPLATE["Parameters"][f"Forward{name}"]
        assert [inner.get(key) for key in ("Default", "MinValue", "MaxValue", "AllowedPattern")] == [
            outer.get(key) for key in ("Default", "MinValue", "MaxValue", "AllowedPattern")
        ]
    assert TEMPLATE["Outputs"]["ForwardDlqUrl"]["Value"] == get_att("ForwardStack", "Outputs.ForwardDlqUrl")


def test_the_key_is_shown_nowhere():
    assert TEMPLATE["Parameters"]["ForwardKey"]["NoEcho"] is True and FORWARD["Parameters"]["Key"]["NoEcho"] is True
    assert json.dumps(FORWARD["Resources"]).count('{"Ref": "Key"}') == 1
    assert '"Key"' not in json.dumps(FORWARD["Outputs"]) and "ForwardKey" not in json.dumps(TEMPLATE["Outputs"])


def test_the_key_may_be_the_value_of_the_sample_receivers():
    """They read several keys, separated by commas. EventBridge takes no colon in the value of the header."""
    outer, inner = TEMPLATE["Parameters"]["ForwardKey"]["AllowedPattern"], FORWARD["Parameters"]["Key"]["AllowedPattern"]
    for pattern in (outer, inner):
        for key in ("k" * 16, "k" * 512, "!#$%&'*+-.^_`|~;/=0"):
            assert re.search(pattern, key), (pattern, key)
        for key in ("k" * 15, "k" * 513, "abcdefgh,ijklmnopqr", "abcdefgh:ijklmnopqr", "abcdefgh ijklmnopqr", " " + "k" * 16):
            assert not re.search(pattern, key), (pattern, key)
    assert re.search(outer, "") and not re.search(inner, "")


def test_an_event_that_cannot_be_delivered_is_repeated_for_a_day_and_then_kept():
    rule = forward("ForwardRule")
    assert rule["EventBusName"] == ref("EventBusName")
    assert rule["EventPattern"] == {
        "source": ["switchhook"],
        "detail-type": {"Fn::If": ["HasEventTypes", ref("EventTypes"), ref("AWS::NoValue")]},
    }
    (target,) = rule["Targets"]
    assert (target["Arn"], target["InputPath"]) == (get_att("Destination", "Arn"), "$.detail")
    # The most that EventBridge allows.
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 24 * 3600, "MaximumRetryAttempts": 185}
    assert target["DeadLetterConfig"] == {"Arn": get_att("ForwardDlq", "Arn")}
    assert forward("ForwardDlq")["MessageRetentionPeriod"] == 14 * 24 * 3600
    (allowed,) = forward("ForwardDlqPolicy")["PolicyDocument"]["Statement"]
    assert (allowed["Action"], allowed["Resource"]) == ("sqs:SendMessage", get_att("ForwardDlq", "Arn"))
    assert allowed["Condition"] == {"ArnEquals": {"aws:SourceArn": get_att("ForwardRule", "Arn")}}


def test_a_key_of_the_customer_encrypts_the_events_that_were_not_delivered():
    queue = forward("ForwardDlq")
    assert queue["KmsMasterKeyId"] == {"Fn::If": ["HasKmsKey", ref("KmsKeyArn"), ref("AWS::NoValue")]}
    assert queue["SqsManagedSseEnabled"] == {"Fn::If": ["HasKmsKey", ref("AWS::NoValue"), True]}
    pattern = FORWARD["Parameters"]["KmsKeyArn"]["AllowedPattern"]
    assert pattern == TEMPLATE["Parameters"]["KmsKeyArn"]["AllowedPattern"]
    # EventBridge calls KMS as a service, so only the policy of the key can allow it.
    page = (ROOT / "docs" / "deploy.md").read_text()
    policy = next(json.loads(found) for found in re.findall(r'\{"Effect": "Allow"[^}]*\}[^}]*\}', page) if "events.amazonaws.com\"}" in found)
    assert policy["Principal"] == {"Service": "events.amazonaws.com"}
    assert set(policy["Action"]) == {"kms:Decrypt", "kms:GenerateDataKey"}


def test_the_rule_may_post_to_its_own_destination_and_do_nothing_else():
    (statement,) = statements(forward("ForwardRole"))
    assert (as_list(statement["Action"]), as_list(statement["Resource"])) == (["events:InvokeApiDestination"], [get_att("Destination", "Arn")])
    assert [name for name, resource in FORWARD["Resources"].items() if resource["Type"].startswith("AWS::IAM::")] == ["ForwardRole"]


def test_event_types_that_the_parameter_takes_are_those_that_exist():
    allowed = re.compile(TEMPLATE["Parameters"]["ForwardEventTypes"]["AllowedPattern"])
    schemas = [json.loads(path.read_text()) for path in sorted((ROOT / "infra" / "events").glob("*.json"))]
    types = sorted(set(re.findall(r'"((?:appointment|call|operator|provider|webhook)\.[a-z_]+)"', json.dumps(schemas))))
    assert "appointment.confirmed" in types and allowed.fullmatch(",".join(types)) and allowed.fullmatch("")
    assert not allowed.fullmatch("appointment.confirmed, call.busy") and not allowed.fullmatch("confirmed")


# --- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("template", "prefix", "count"), [(EDGE, "AWS::StackName", 2), (FORWARD, "StackName", 3)], ids=["edge", "forward"])
def test_an_alarm_has_its_severity_in_its_name_and_stays_quiet_on_a_new_stack(template, prefix, count):
    alarms = {name: each["Properties"] for name, each in template["Resources"].items() if each["Type"] == "AWS::CloudWatch::Alarm"}
    assert len(alarms) == count
    for name, alarm in alarms.items():
        severity, words = re.fullmatch(r"(P[123])(\w+)Alarm", name).groups()
        kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", words).lower()
        assert alarm["AlarmName"] == {"Fn::Sub": f"${{{prefix}}}-{severity}-{kebab}"}
        assert alarm["AlarmActions"] == alarm["OKActions"] == {"Fn::If": ["HasAlarmTopic", [ref("AlarmTopicArn")], ref("AWS::NoValue")]}
        assert (alarm["ComparisonOperator"], alarm["TreatMissingData"]) == ("GreaterThanThreshold", "notBreaching")


def test_the_alarms_of_the_forwarding_look_at_its_own_queue_and_rule():
    assert forward("P1ForwardDeadLettersAlarm")["Dimensions"] == [{"Name": "QueueName", "Value": get_att("ForwardDlq", "QueueName")}]
    for alarm, metric in (("P1ForwardEventsLostAlarm", "InvocationsFailedToBeSentToDlq"), ("P2ForwardRetriesAlarm", "RetryInvocationAttempts")):
        dimensions = {each["Name"]: each["Value"] for each in forward(alarm)["Dimensions"]}
        assert dimensions == {"EventBusName": ref("EventBusName"), "RuleName": forward("ForwardRule")["Name"]}
        assert (forward(alarm)["Namespace"], forward(alarm)["MetricName"]) == ("AWS/Events", metric)


def test_the_alarms_of_the_edge_look_at_its_own_distribution_and_rule():
    dimensions = {each["Name"]: each["Value"] for each in edge("P1EdgeErrorRateAlarm")["Dimensions"]}
    assert dimensions == {"DistributionId": ref("Distribution"), "Region": "Global"}
    acl, (_, rate, _) = edge("WebAcl"), edge("WebAcl")["Rules"]
    dimensions = {each["Name"]: each["Value"] for each in edge("P2EdgeRateLimitAlarm")["Dimensions"]}
    assert dimensions == {"WebACL": acl["VisibilityConfig"]["MetricName"], "Rule": rate["VisibilityConfig"]["MetricName"]}


def rows(page: str, header: str) -> dict[str, str]:
    """Returns the first two columns of a table in a page."""
    lines = (ROOT / "docs" / page).read_text().split(f"| {header} | default | meaning |\n|---|---|---|\n")[1].split("\n\n")[0]
    return {line.split("|")[1].strip().strip("`"): line.split("|")[2].strip() for line in lines.splitlines()}


def test_the_page_of_the_edge_lists_its_parameters():
    parameters = {name: str(each.get("Default", "")) for name, each in EDGE["Parameters"].items()}
    assert rows("edge.md", "parameter of `infra/edge.yaml`") == parameters
