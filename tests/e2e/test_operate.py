"""The operators' commands on a deployed stack, named by its CloudFormation stack alone."""

import json
import subprocess

import pytest

from harness import PROVIDERS, TOOL


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


def test_a_providers_file_is_stored_in_both_secrets(operate, cloud, stack, tmp_path):
    secrets = cloud.client("secretsmanager")
    outputs = ("WebhookKeysSecretArn", "DialAccountsSecretArn")

    def stored() -> list[dict]:
        return [json.loads(secrets.get_secret_value(SecretId=stack.outputs[each])["SecretString"]) for each in outputs]

    before, file = stored(), tmp_path / "providers.json"
    vapi = {"keys": ["a secret of the credential, which is new"], "dial": {"api_key": "an API key that is new", "assistant_id": "a", "phone_number_id": "p"}}
    file.write_text(json.dumps({"generic": PROVIDERS["generic"], "vapi": vapi}))
    code, out, errors = operate("providers", "put", str(file))
    assert code == 0 and "add --yes" in out, errors
    assert stored() == before
    try:
        code, out, errors = operate("providers", "put", str(file), "--yes")
        assert code == 0 and "which is new" not in out + errors, errors
        assert "vapi: webhook keys added, dial account added" in out and "generic: webhook keys unchanged" in out
        assert "vapi has an account, but no rate in DialRates" in errors
        assert stored() == [before[0] | {"vapi": {"keys": vapi["keys"]}}, before[1] | {"vapi": {"dial": vapi["dial"]}}]
        previous = secrets.get_secret_value(SecretId=stack.outputs[outputs[0]], VersionStage="AWSPREVIOUS")
        assert json.loads(previous["SecretString"]) == before[0]
    finally:
        for output, half in zip(outputs, before):
            secrets.put_secret_value(SecretId=stack.outputs[output], SecretString=json.dumps(half))


def test_stack_that_does_not_exist_is_refused_by_name(cloud):
    done = subprocess.run([TOOL, "status", "--stack", "no-such-stack"], env=cloud.environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "no-such-stack" in done.stderr
