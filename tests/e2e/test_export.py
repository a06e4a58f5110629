"""Tests of infra/export.yaml: what the schedule asks DynamoDB for is valid, and the role may do that and nothing else."""

import json
import re

import botocore.session
from botocore.validate import ParamValidator
from samcli.yamlhelper import yaml_parse

from harness import ROOT
from test_template import TEMPLATE, as_list, statements

EXPORT = yaml_parse((ROOT / "infra" / "export.yaml").read_text())
VALUES = {
    "AWS::Partition": "aws",
    "AWS::Region": "eu-west-1",
    "AWS::AccountId": "111122223333",
    "SwitchhookStackName": "switchhook",
    "InboxTableName": "switchhook-InboxTable-1",
    "ExportBucketName": "exports",
    "ExportPrefix": EXPORT["Parameters"]["ExportPrefix"]["Default"],
    "ExportEveryDays": EXPORT["Parameters"]["ExportEveryDays"]["Default"],
}
TABLE = "arn:aws:dynamodb:eu-west-1:111122223333:table/switchhook-InboxTable-1"


def resource(name: str) -> dict:
    return EXPORT["Resources"][name]["Properties"]


def substituted(value: dict) -> str:
    return re.sub(r"\$\{([^}]+)\}", lambda name: str(VALUES[name[1]]), value["Fn::Sub"])


def test_the_schedule_asks_for_a_full_export_of_the_inbox():
    target = resource("ExportSchedule")["Target"]
    service, action = substituted(target["Arn"]).removeprefix("arn:aws:scheduler:::aws-sdk:").split(":")
    model = botocore.session.get_session().get_service_model(service)
    operation = model.operation_model(action[0].upper() + action[1:])
    request = json.loads(substituted(target["Input"]))
    report = ParamValidator().validate(request, operation.input_shape)
    assert not report.has_errors(), report.generate_report()
    assert (request["TableArn"], request["S3Bucket"]) == (TABLE, "exports")
    # A retry has the same token as the first request, and the next export has another one.
    assert request["ClientToken"] == "switchhook-<aws.scheduler.scheduled-time>"
    assert substituted(resource("ExportSchedule")["ScheduleExpression"]) == "rate(7 days)"


def test_the_role_may_export_the_inbox_and_nothing_else():
    found = [(as_list(each["Action"]), substituted(each["Resource"])) for each in statements(resource("ExportRole"))]
    assert found == [
        (["dynamodb:ExportTableToPointInTime"], TABLE),
        (["s3:PutObject", "s3:PutObjectAcl", "s3:AbortMultipartUpload"], "arn:aws:s3:::exports/switchhook-inbox/*"),
    ]
    (trust,) = resource("ExportRole")["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}


def test_the_inbox_can_be_exported_before_its_webhooks_expire():
    assert TEMPLATE["Resources"]["InboxTable"]["Properties"]["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
    assert "InboxTableName" in TEMPLATE["Outputs"]
    retention = TEMPLATE["Parameters"]["InboxRetentionDays"]["Default"]
    days = EXPORT["Parameters"]["ExportEveryDays"]
    assert days["Default"] * 2 <= retention and days["MaxValue"] < retention
    # `rate(1 days)` is not valid.
    assert days["MinValue"] > 1


def test_the_alarm_watches_the_group_of_the_schedule():
    (dimension,) = resource("P3InboxExportAlarm")["Dimensions"]
    assert dimension == {"Name": "ScheduleGroup", "Value": {"Ref": "ExportScheduleGroup"}}
    assert resource("ExportSchedule")["GroupName"] == {"Ref": "ExportScheduleGroup"}
