"""Tests of infra/budget.yaml: mail before the money is spent, and when more than planned is expected."""

from samcli.yamlhelper import yaml_parse

from harness import ROOT

TEMPLATE = yaml_parse((ROOT / "infra" / "budget.yaml").read_text())
BUDGET = TEMPLATE["Resources"]["Budget"]["Properties"]


def test_mail_goes_out_at_80_percent_and_when_the_forecast_is_over_the_limit():
    found = [each["Notification"] for each in BUDGET["NotificationsWithSubscribers"]]
    thresholds = [(each["NotificationType"], each["ComparisonOperator"], each["Threshold"], each["ThresholdType"]) for each in found]
    assert thresholds == [("ACTUAL", "GREATER_THAN", 80, "PERCENTAGE"), ("FORECASTED", "GREATER_THAN", 100, "PERCENTAGE")]
    assert "80 %" in TEMPLATE["Parameters"]["MonthlyLimit"]["Description"]


def test_each_notification_goes_to_the_address_alone():
    for each in BUDGET["NotificationsWithSubscribers"]:
        assert each["Subscribers"] == [{"SubscriptionType": "EMAIL", "Address": {"Ref": "Email"}}]
    assert "Default" not in TEMPLATE["Parameters"]["Email"], "a budget without an address would warn nobody"


def test_the_limit_is_one_of_a_month_and_may_be_one_of_a_tag():
    budget = BUDGET["Budget"]
    assert (budget["BudgetType"], budget["TimeUnit"]) == ("COST", "MONTHLY")
    assert budget["BudgetLimit"] == {"Amount": {"Ref": "MonthlyLimit"}, "Unit": "USD"}
    assert budget["CostFilters"] == {"Fn::If": ["HasCostTag", {"TagKeyValue": [{"Ref": "CostTag"}]}, {"Ref": "AWS::NoValue"}]}
    assert list(TEMPLATE["Resources"]) == ["Budget"]
