"""Tests of infra/capacity.yaml and of TableUnits: every table and index has a capacity that follows its traffic, and on demand none has one."""

import botocore.session
from botocore.validate import ParamValidator
from samcli.yamlhelper import yaml_parse

from harness import ROOT
from test_template import RESOURCES, TEMPLATE, properties, ref

CAPACITY = yaml_parse((ROOT / "infra" / "capacity.yaml").read_text())
NAMES = {"InboxTable": "InboxTableName", "CallsTable": "CallsTableName"}
CAPACITIES = ("ReadCapacityUnits", "WriteCapacityUnits")
# Default quotas of an account: units of one table or index, and of all of them together.
TABLE_UNITS_MAX, ACCOUNT_UNITS_MAX = 40_000, 80_000
# Tables and indexes with the capacities that every webhook uses, and `by_attention`, which every webhook writes while the consumer fails.
# docs/cost.md reckons with these six, and with 5 units for each other one.
BUSY = {
    "InboxTable": {"WriteCapacityUnits"},
    "by_received": {"WriteCapacityUnits"},
    "by_attention": {"WriteCapacityUnits"},
    "CallsTable": {"ReadCapacityUnits", "WriteCapacityUnits"},
    "by_wake": {"WriteCapacityUnits"},
}
QUIET_UNITS = 5


def indexes(table: str) -> list[dict]:
    return properties(table)["GlobalSecondaryIndexes"]


def started_with() -> dict[tuple[str, str], object]:
    """Returns the number that each capacity starts with, by the name of its table or index. None has one on demand."""
    found = {}
    for table in NAMES:
        for name, each in [(table, properties(table)), *[(index["IndexName"], index) for index in indexes(table)]]:
            condition, provisioned, on_demand = each["ProvisionedThroughput"]["Fn::If"]
            assert (condition, on_demand) == ("IsProvisioned", ref("AWS::NoValue"))
            assert set(provisioned) == set(CAPACITIES)
            found |= {(name, capacity): units for capacity, units in provisioned.items()}
    return found


def of_type(kind: str) -> dict[str, dict]:
    return {name: each["Properties"] for name, each in CAPACITY["Resources"].items() if each["Type"] == f"AWS::ApplicationAutoScaling::{kind}"}


def test_tables_are_on_demand_unless_the_parameter_says_how_many_units_they_have():
    assert TEMPLATE["Parameters"]["TableUnits"]["Default"] == 0
    assert TEMPLATE["Conditions"]["IsProvisioned"] == {"Fn::Not": [{"Fn::Equals": [ref("TableUnits"), 0]}]}
    for (name, capacity), units in started_with().items():
        assert units == (ref("TableUnits") if capacity in BUSY.get(name, ()) else QUIET_UNITS), f"{capacity} of {name}"


def test_no_capacity_starts_above_the_number_that_it_falls_to():
    """Auto scaling takes nothing away while nothing is consumed. So a quiet capacity would stay, and be paid for, where it started."""
    started = started_with()
    targets = of_type("ScalableTarget").values()
    assert len(targets) == len(started)
    for target in targets:
        path, capacity = target["ResourceId"]["Fn::Sub"], target["ScalableDimension"].rsplit(":", 1)[1]
        index = path.partition("/index/")[2]
        (table,) = [table for table, name in NAMES.items() if f"${{{name}}}" in path]
        start, floor = started[index or table, capacity], target["MinCapacity"]
        assert (start, floor) in [(ref("TableUnits"), ref("Units")), (QUIET_UNITS, QUIET_UNITS)], path


def test_every_capacity_follows_its_traffic():
    wanted = set()
    for table, name in NAMES.items():
        wanted |= {(f"table/${{{name}}}", f"dynamodb:table:{capacity}") for capacity in CAPACITIES}
        for index in indexes(table):
            wanted |= {(f"table/${{{name}}}/index/{index['IndexName']}", f"dynamodb:index:{capacity}") for capacity in CAPACITIES}
    targets, policies = of_type("ScalableTarget"), of_type("ScalingPolicy")
    assert {(each["ResourceId"]["Fn::Sub"], each["ScalableDimension"]) for each in targets.values()} == wanted
    assert len(targets) == len(wanted) == len(policies)
    assert {each["ScalingTargetId"]["Ref"] for each in policies.values()} == set(targets)
    for policy in policies.values():
        tracking = policy["TargetTrackingScalingPolicyConfiguration"]
        capacity = targets[policy["ScalingTargetId"]["Ref"]]["ScalableDimension"].rsplit(":", 1)[1]
        metric = f"DynamoDB{capacity.removesuffix('Units')}Utilization"
        assert tracking["PredefinedMetricSpecification"] == {"PredefinedMetricType": metric}


def test_capacities_are_made_one_after_the_other():
    before = None
    for name, each in CAPACITY["Resources"].items():
        if each["Type"] == "AWS::ApplicationAutoScaling::ScalableTarget":
            assert each.get("DependsOn") == before
        else:
            before = name


def test_the_quotas_of_an_account_allow_the_largest_number():
    largest = TEMPLATE["Parameters"]["TableUnits"]["MaxValue"]
    started = started_with()
    for capacity in CAPACITIES:
        units = [QUIET_UNITS if units == QUIET_UNITS else largest for (_, kind), units in started.items() if kind == capacity]
        assert max(units) <= TABLE_UNITS_MAX and sum(units) <= ACCOUNT_UNITS_MAX


def test_application_auto_scaling_takes_the_targets_and_the_policies():
    model = botocore.session.get_session().get_service_model("application-autoscaling")

    def check(operation: str, request: dict):
        shape = model.operation_model(operation).input_shape
        report = ParamValidator().validate(request, shape)
        assert not report.has_errors(), report.generate_report()
        # The validator does not look at the values of enumerations.
        allowed = {name: member.enum for name, member in shape.members.items() if getattr(member, "enum", None)}
        assert {name for name in request if name in allowed and request[name] not in allowed[name]} == set()

    targets = of_type("ScalableTarget")
    for target in targets.values():
        request = target | {"ResourceId": "table/t", "MinCapacity": 1}
        assert target["MaxCapacity"] == TABLE_UNITS_MAX
        check("RegisterScalableTarget", request)
    for policy in of_type("ScalingPolicy").values():
        target = targets[policy["ScalingTargetId"]["Ref"]]
        request = {name: value for name, value in policy.items() if name != "ScalingTargetId"}
        check("PutScalingPolicy", request | {"ServiceNamespace": target["ServiceNamespace"], "ResourceId": "table/t", "ScalableDimension": target["ScalableDimension"]})


def test_the_stack_hands_its_tables_to_the_capacities():
    nested = RESOURCES["CapacityStack"]
    assert nested["Condition"] == "IsProvisioned"
    assert "      TemplateURL: infra/capacity.yaml\n" in (ROOT / "template.yaml").read_text()
    expected = {name: ref(table) for table, name in NAMES.items()} | {"Units": ref("TableUnits")}
    assert nested["Properties"]["Parameters"] == expected and set(expected) == set(CAPACITY["Parameters"])
    inner, outer = CAPACITY["Parameters"]["Units"], TEMPLATE["Parameters"]["TableUnits"]
    assert (inner["MinValue"], inner["MaxValue"]) == (1, outer["MaxValue"])
