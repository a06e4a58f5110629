"""The operators' commands on a deployed stack, named by its CloudFormation stack alone."""

import json
import subprocess

import pytest

from harness import TOOL


@pytest.fixture(scope="module")
def operate(cloud, stack, tmp_path_factory):
    """Runs a command of the tool on the deployed stack. Returns its exit status, standard output and standard error."""
    nowhere = str(tmp_path_factory.mktemp("operate"))
    environment = cloud.environment | {"XDG_CONFIG_HOME": nowhere, "XDG_STATE_HOME": nowhere}

    def run(*arguments):
        done = subprocess.run([TOOL, *arguments], env=environment, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    return lambda *arguments: run(*arguments, "--stack", stack.name)


def test_status_of_a_deployed_stack_is_read_by_its_name(operate):
    code, out, errors = operate("status", "--json")
    assert code in (0, 1), errors
    status = json.loads(out)
    questions = {question["question"]: question for question in status["questions"]}
    assert list(questions) == ["Healthy?", "Backlog?", "Poison?"]
    lines = {line["name"]: line for question in questions.values() for line in question["evidence"]}
    for name in ["alarms", "rejected webhooks", "due calls", "dead letters", "quarantined", "provider circuits"]:
        assert lines[name]["level"] != "unknown", lines[name]


def test_schedules_are_invoked_by_hand(operate):
    code, out, errors = operate("reconcile", "--json")
    assert code == 0, errors
    assert "swept_minutes" in json.loads(out)
    code, out, errors = operate("reconcile", "--drift", "--json")
    assert code == 0, errors
    assert "checked" in json.loads(out)


def test_providers_and_stuck_calls_are_listed(operate):
    code, out, errors = operate("providers", "list", "--json")
    assert code in (0, 1), errors
    report = json.loads(out)
    assert report["unconfigured_reason"] is None
    assert "retell" in {provider["provider"] for provider in report["providers"]}
    code, out, errors = operate("stuck", "--json")
    assert code in (0, 1), errors
    assert json.loads(out)["unreadable"] == []


def test_stack_that_does_not_exist_is_refused_by_name(cloud):
    done = subprocess.run([TOOL, "status", "--stack", "no-such-stack"], env=cloud.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no-such-stack" in done.stderr
