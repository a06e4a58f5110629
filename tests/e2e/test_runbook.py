"""The pages hold against the template, the code and the AWS APIs: names, commands and options in them exist."""

import itertools
import json
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path

import botocore.session
import jmespath
import pytest
from botocore import xform_name
from markdown_it import MarkdownIt
from expand_template import expand
from parameters import parameters
from samcli.cli.types import CfnParameterOverridesType
from samcli.yamlhelper import yaml_parse

from harness import FUNCTIONS, ROOT, TOOL
from test_template import RESOURCES, TEMPLATE, of_type

RUNBOOK = ROOT / "infra" / "runbook.md"
PAGES = [RUNBOOK, *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# Every template of the repository, by its path: an alarm of a new one needs a section in the runbook too.
TEMPLATES = {"template.yaml": TEMPLATE} | {
    f"infra/{path.name}": document
    for path in sorted((ROOT / "infra").glob("*.yaml"))
    if "AWSTemplateFormatVersion" in (document := yaml_parse(path.read_text()))
}
RESOURCES_OF_ALL = {name: each for template in TEMPLATES.values() for name, each in template["Resources"].items()}
OUTPUTS_OF_ALL = {name for template in TEMPLATES.values() for name in template.get("Outputs", {})}
ALARMS = sorted(name for name, each in RESOURCES_OF_ALL.items() if each["Type"] == "AWS::CloudWatch::Alarm")


@cache
def tokens(page: Path) -> list:
    return MarkdownIt().parse(page.read_text())


def inline_code(page: Path) -> list[str]:
    inline = [child for token in tokens(page) for child in token.children or []]
    return [child.content for child in inline if child.type == "code_inline"]


def code_blocks(page: Path) -> list[str]:
    return [token.content for token in tokens(page) if token.type in ("code_block", "fence")]


def sections(page: Path) -> dict[str, str]:
    """Returns the text below each heading of the second level."""
    lines = page.read_text().splitlines()
    pairs = zip(tokens(page), tokens(page)[1:])
    starts = [(after.content, before.map) for before, after in pairs if (before.type, before.tag) == ("heading_open", "h2")]
    ends = [span[0] for _, span in starts[1:]] + [len(lines)]
    return {heading: "\n".join(lines[span[1] : end]) for (heading, span), end in zip(starts, ends)}


def commands(page: Path) -> list[list[str]]:
    """Returns the words of each shell command in the code blocks of a page."""
    found, pending = [], ""
    for block in code_blocks(page):
        for line in block.splitlines():
            pending = f"{pending}{line}\n"
            if line.endswith("\\"):
                pending = pending.removesuffix("\\\n")
                continue
            try:
                words = shlex.split(pending, comments=True)
            except ValueError:
                continue  # a quotation continues on the next line
            # A redirection ends the arguments.
            found.append(words[: words.index(">")] if ">" in words else words)
            pending = ""
        pending = ""
    return [words for words in found if words]


def commands_of(*programs: str) -> list:
    return [
        pytest.param(words[1:], id=f"{page.name}: {' '.join(words)[:60]}")
        for page in PAGES
        for words in commands(page)
        if words[0] in programs
    ]


# --- the runbook -----------------------------------------------------------------------------------------------------


def test_every_alarm_is_in_the_runbook_once_with_its_four_parts():
    headed = [name for heading in sections(RUNBOOK) for name in re.findall(r"\w+Alarm\b", heading)]
    assert sorted(headed) == ALARMS
    for heading, text in sections(RUNBOOK).items():
        if "Alarm" in heading:
            assert [part for part in ("**Meaning.**", "**Look.**", "**Do", "**Over when**") if part not in text] == [], heading
            do = text[text.index("**Do") : text.index("**Over when**")]
            assert re.search(r"^ {4,}\S", do, re.MULTILINE) or "There is nothing to run: " in " ".join(do.split()), f"{heading}: no command mends it"


def test_the_runbook_names_what_the_template_has():
    known = {name for template in TEMPLATES.values() for name in template["Parameters"]} | {*OUTPUTS_OF_ALL, *RESOURCES_OF_ALL}
    camel_case = {code for code in inline_code(RUNBOOK) if re.fullmatch(r"([A-Z][a-z]+){2,}", code)}
    assert camel_case <= known
    assert set(re.findall(r"\b\w+Alarm\b", RUNBOOK.read_text())) <= set(ALARMS)
    assert RESOURCES["HttpLogGroup"]["Properties"]["LogGroupName"] == {"Fn::Sub": "/aws/vendedlogs/${AWS::StackName}-http"}


def placeholder(output: str) -> str:
    """Returns the word that stands for the value of an output in a command."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", output).upper()


def test_placeholders_are_outputs_or_explained():
    outputs = {placeholder(name) for name in OUTPUTS_OF_ALL}
    used = set(re.findall(r"(?<![$\w])[A-Z]+(?:_[A-Z]+)+(?!\w)", "".join(code_blocks(RUNBOOK))))
    assert used - outputs == used & set(inline_code(RUNBOOK)) - outputs


ACCESS_LOG = json.dumps(RESOURCES["HttpStage"]["Properties"]["AccessLogSettings"]["Format"]).replace("\\", "")


def test_the_runbook_names_what_the_code_logs():
    rust = {path: path.read_text() for folder in ("functions", "shared") for path in sorted((ROOT / folder).rglob("*.rs"))}
    code = "".join(rust.values()) + (ROOT / "infra" / "openapi.yaml").read_text()
    for word in {code for code in inline_code(RUNBOOK) if re.fullmatch(r"[a-z]+(_[a-z]+)+", code)}:
        assert re.search(rf"\b{word}\b", code), f"{word} is not in the code"
    queries = [words for words in commands(RUNBOOK) if words[:3] == ["aws", "logs", "tail"]]
    assert queries
    for words in queries:
        function = re.fullmatch(r"/aws/(?:lambda|vendedlogs)/switchhook-(\w+)", words[3])[1]
        assert function in [*FUNCTIONS, "http"]
        pattern = words[words.index("--filter-pattern") + 1] if "--filter-pattern" in words else "{ }"
        folders = (ROOT / "functions" / function, ROOT / "shared")
        sources = "".join(text for path, text in rust.items() if any(path.is_relative_to(folder) for folder in folders))
        for word in re.findall(r'(?:action_taken|cause) = "(\w+)"', pattern):
            assert f'"{word}"' in sources, f"{function} never logs {word}"
        # The field of a decision, or the name of a number. Another function may have a field that this one leaves out.
        logged = "".join(text for path, text in rust.items() if path.is_relative_to(folders[0])) if function != "http" else ACCESS_LOG
        for field in set(re.findall(r"\$\.(\w+)", pattern)) - {"level"}:
            assert re.search(rf'\b{field}(: |,\s)|"{field}"', logged), f"{function} never logs a field {field}"


def test_the_runbook_explains_every_refusal_of_a_dial():
    sources = "".join(path.read_text() for path in sorted((ROOT / "shared" / "providers" / "src").rglob("*.rs")))
    answers = (ROOT / "shared" / "providers" / "src" / "dial.rs").read_text()
    refusals = re.findall(r'Refusal::\w+\("(\w+)"\)', sources)
    refusals += re.findall(r'(?:AccountProblem \{ reason: |busy\(|refused\()"(\w+)"', answers)
    assert len(refusals) > 10
    assert set(refusals) <= set(inline_code(RUNBOOK))


def test_the_runbook_explains_every_cause_of_a_rejected_webhook():
    ingress = (ROOT / "functions" / "ingress" / "src" / "lib.rs").read_text()
    signature = (ROOT / "shared" / "providers" / "src" / "webhook.rs").read_text()
    causes = re.findall(r'\("rejected", Some\("(\w+)"\)\)', ingress) + re.findall(r'Self::\w+(?: \{ \.\. \})? => "(\w+)"', signature)
    assert len(causes) > 5
    text = sections(RUNBOOK)["P2RejectedWebhooksAlarm"]
    assert [cause for cause in causes if f"`{cause}`" not in text] == []


# Parameters whose change makes a new version of a function.
VERSIONED = {
    name for version in of_type("AWS::Lambda::Version").values() for name in re.findall(r"\$\{(\w+)\}", version["Description"]["Fn::Sub"])
}
AT_ONCE = "Deployment=AllAtOnce"


def test_a_correction_is_deployed_at_once():
    """With the settings of `prod`, a new version would get 10 % of the invocations for 15 minutes, and the old one goes on with the rest."""
    for heading, text in sections(RUNBOOK).items():
        if re.search(r"[Dd]eploy the (right parameters|version before|previous one)", " ".join(text.split())):
            assert f"`{AT_ONCE}`" in text or f"    make deploy PARAMETERS={AT_ONCE}" in text, heading
    for block in code_blocks(RUNBOOK):
        for line in block.splitlines():
            given = parameters("default", re.findall(r"PARAMETERS='?([^']*)", line))
            if line.startswith("make deploy") and ("git checkout" in block or VERSIONED & set(given)):
                assert AT_ONCE in line, line


def test_the_alarms_that_stop_a_deployment_say_how_to_deploy_all_the_same():
    """CodeDeploy does not start while one of them fires, and then CloudFormation rolls the correction back."""
    gradual = expand(ROOT / "template.yaml", {"Deployment": "Canary10Percent15Minutes"})["Resources"]
    _, configuration, _ = gradual["IngressFunctionDeploymentGroup"]["Properties"]["AlarmConfiguration"]["Fn::If"]
    alarms = [each["Name"]["Ref"] for each in configuration["Alarms"]]
    assert alarms
    for alarm in alarms:
        text = sections(RUNBOOK)[alarm]
        assert "CodeDeploy" in text and re.search(rf"^ +make deploy PARAMETERS='?{AT_ONCE}", text, re.MULTILINE), alarm


def test_the_runbook_first_stops_all_dialling_at_once():
    """A deployment takes minutes, and the dialer still dials the calls that the scheduler has claimed."""
    text = sections(RUNBOOK)["P2DialInDoubtAlarm"]
    steps = re.findall(r"^    (?:aws|make) .*$", text[text.index("**Do.**") :], re.MULTILINE)
    of_dialer = "-function-concurrency --function-name DIALER_FUNCTION_NAME"
    assert steps[:2] == [f"    aws lambda put{of_dialer} --reserved-concurrent-executions 0", f"    aws lambda delete{of_dialer}"]


# --- commands of all pages -------------------------------------------------------------------------------------------

# Options of every command of the AWS CLI.
GLOBAL_OPTIONS = {"--query", "--output", "--region", "--profile", "--endpoint-url", "--cli-binary-format"}
# `aws logs tail` is made by the CLI; no API has it.
TAIL_OPTIONS = {"--since", "--follow", "--format", "--filter-pattern", "--log-stream-names"}
# Services whose name in the CLI is not the one of their API.
CLI_NAMES = {"deploy": "codedeploy"}
# Options that the CLI calls otherwise than the API.
RENAMED = {("sns", "subscribe"): {"--notification-endpoint": "--endpoint"}}
# Positional arguments: the CLI writes an answer that is a stream to a file.
POSITIONAL = {("lambda", "invoke"): 1, ("logs", "tail"): 1}


def values_of(words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Returns the values of each option, and the words before the first option."""
    positional, options = [], {}
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            options[name] = [value] if equals else []
        elif options:
            options[list(options)[-1]].append(word)
        else:
            positional.append(word)
    return options, positional


def check_value(shape, values: list[str]):
    if shape.type_name == "list":
        allowed = getattr(shape.member, "enum", [])
        assert values, "a list needs a value"
    else:
        allowed = getattr(shape, "enum", [])
    for value in values:
        assert not allowed or value in allowed, f"{value} is not one of {allowed}"
        if value.startswith(("{", "[")):
            json.loads(value)


def written_to(file: str) -> set[str]:
    """Returns the fields that commands of the runbook write to a file, by a query that names them."""
    (text,) = re.findall(rf"--query '([^']+)' > {re.escape(file)}", "".join(code_blocks(RUNBOOK)))
    query = jmespath.compile(text).parsed
    assert query["type"] == "multi_select_dict"
    return {pair["value"] for pair in query["children"]}


@pytest.mark.parametrize("words", commands_of("aws"))
def test_a_command_of_the_aws_cli_is_one_that_the_api_knows(words):
    service, operation, *rest = words
    options, positional = values_of(rest)
    renamed = RENAMED.get((service, operation), {})
    options = {renamed.get(name, name): values for name, values in options.items()}
    if "--query" in options:
        jmespath.compile(*options["--query"])
    if (service, operation) == ("logs", "tail"):
        assert set(options) <= GLOBAL_OPTIONS | TAIL_OPTIONS and len(positional) == 1
        return
    model = botocore.session.get_session().get_service_model(CLI_NAMES.get(service, service))
    names = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in names
    shape = model.operation_model(names[operation]).input_shape
    members = {f"--{xform_name(name, '-')}": name for name in (shape.members if shape else {})}
    # The CLI has a second option for each boolean, which makes it false.
    members |= {f"--no-{option[2:]}": name for option, name in members.items() if shape.members[name].type_name == "boolean"}
    assert set(options) <= GLOBAL_OPTIONS | {"--cli-input-json"} | set(members)
    missing = set(shape.required_members if shape else []) - {members[option] for option in options if option in members}
    if "--cli-input-json" in options:
        missing -= written_to(options.pop("--cli-input-json")[0].removeprefix("file://"))
    assert not missing
    for option, values in options.items():
        # The file that the answer goes to follows the value of the last option.
        is_last = option == list(options)[-1]
        extra = POSITIONAL.get((service, operation), 0) - len(positional) if is_last else 0
        if option in members:
            member = shape.members[members[option]]
            check_value(member, values[: len(values) - extra])
        if option not in members or member.type_name != "list":
            expected = 0 if option in members and member.type_name == "boolean" else 1
            assert len(values) == expected + extra, f"{option} takes {expected} value(s): {values}"


@pytest.mark.parametrize(
    "words", [each for each in commands_of("aws") if each.values[0][1].endswith("-function-concurrency")]
)
def test_the_concurrency_of_a_function_is_set_without_its_alias(words):
    """Lambda refuses it for an alias or a version, and some outputs name a function with its alias."""
    (named,) = values_of(words)[0]["--function-name"]
    without_alias = {placeholder(name) for name, output in TEMPLATE["Outputs"].items() if "Ref" in output["Value"]}
    assert named in without_alias


def command(*start: str) -> dict[str, list[str]]:
    """Returns the options of the one command of the runbook that begins with these words."""
    (found,) = [values_of(words)[0] for words in commands(RUNBOOK) if words[: len(start)] == list(start)]
    return found


def test_a_schedule_that_the_runbook_copies_or_makes_again_is_the_one_of_the_template():
    """A deployment does not mend what was changed or deleted behind CloudFormation's back, so commands do."""
    wanted = RESOURCES["SchedulerSchedule"]["Properties"]
    assert written_to("schedule.json") == {"Name", *wanted}
    assert command("aws", "scheduler", "update-schedule")["--state"] == ["ENABLED"]
    made = command("aws", "scheduler", "create-schedule")
    assert made["--schedule-expression"] == [wanted["ScheduleExpression"]]
    assert made["--flexible-time-window"] == [f"Mode={wanted['FlexibleTimeWindow']['Mode']}"]
    target = json.loads(*made["--target"])
    assert target == wanted["Target"] | {"Arn": "FUNCTION_ARN", "RoleArn": "ROLE_ARN"}
    assert RESOURCES["ReconcilerSchedule"]["Properties"]["Target"].keys() == target.keys()
    drift = RESOURCES["DriftSchedule"]["Properties"]
    assert {drift["ScheduleExpression"], drift["Target"]["Input"]} <= set(inline_code(RUNBOOK))


def test_a_queue_policy_that_the_runbook_sets_again_is_the_one_of_the_template():
    wanted = TEMPLATES["infra/forward.yaml"]["Resources"]["ForwardDlqPolicy"]["Properties"]["PolicyDocument"]
    (attributes,) = command("aws", "sqs", "set-queue-attributes")["--attributes"]
    policy = json.loads(json.loads(attributes)["Policy"])
    replaced = json.dumps(wanted).replace(json.dumps({"Fn::GetAtt": ["ForwardDlq", "Arn"]}), '"QUEUE_ARN"')
    assert policy == json.loads(replaced.replace(json.dumps({"Fn::GetAtt": ["ForwardRule", "Arn"]}), '"RULE_ARN"'))


@pytest.mark.parametrize("words", commands_of(".venv/bin/sam"))
def test_parameters_that_sam_is_given_are_those_of_the_template(words):
    options, _ = values_of(words)
    overrides = options.get("--parameter-overrides", [])
    given = [value.partition("=")[0] for value in overrides]
    (template,) = options.get("--template-file", ["template.yaml"])
    assert set(given) <= set(TEMPLATES[template]["Parameters"])
    # SAM leaves out what it cannot read, such as an empty value without quotes.
    assert set(CfnParameterOverridesType().convert(tuple(overrides), None, None)) == set(given)


def test_a_stack_is_deployed_from_what_was_just_built():
    """Without --template-file, SAM deploys what lies in its build folder: another version perhaps, or another architecture."""
    for page in PAGES:
        for block in code_blocks(page):
            before = ""
            for line in block.replace("\\\n", " ").splitlines():
                if line.startswith(".venv/bin/sam deploy") and "--template-file" not in line:
                    assert "make package" in before, f"{page.name}: {line}"
                before += f"{line}\n"


def test_no_table_is_updated_twice_in_a_row():
    """DynamoDB refuses an update while it carries out another one of the same table."""
    for page in PAGES:
        for block in code_blocks(page):
            tables = re.findall(r"aws dynamodb update-table --table-name (\S+)", block)
            assert len(tables) == len(set(tables)) or "aws dynamodb wait" in block, f"{page.name}: {block}"


def test_a_table_that_was_copied_is_deleted():
    """DynamoDB restores no expiry, and `switchhook forget` does not reach the table: it would hold forgotten persons for ever."""
    copying = {heading: text for heading, text in sections(ROOT / "docs" / "recovery.md").items() if re.search(r"recover copy|, and copy it", text)}
    assert len(copying) == 5
    for heading, text in copying.items():
        deleted = re.findall(r"^ +aws dynamodb delete-table --table-name (\S+)$", text, re.MULTILINE)
        assert deleted and set(re.findall(r"--(?:calls|inbox)-from ([^\s`]+)", text)) <= set(deleted), heading
    assert "| tables that you [restored](recovery.md#before-you-start)" in sections(ROOT / "docs" / "privacy.md")["What no command can erase"]


@pytest.mark.parametrize("words", commands_of("make"))
def test_a_target_of_make_exists(words):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {word for word in words if "=" not in word} <= targets
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    # A reader with a release gives the same text to SAM, which leaves out an empty value without quotes.
    assert not re.search(r"=( |$)", variables.get("PARAMETERS", ""))
    assert set(parameters(variables.get("ENV", "default"), [variables.get("PARAMETERS", "")])) <= set(TEMPLATE["Parameters"])


@pytest.mark.parametrize("words", commands_of("switchhook", "target/debug/switchhook"))
def test_a_command_of_the_tool_has_these_options(words):
    if not TOOL.is_file():
        raise FileNotFoundError(f"{TOOL} is missing; build it with: make provider")
    options, _ = values_of(words)
    subcommands = list(itertools.takewhile(re.compile(r"[a-z][a-z-]*").fullmatch, words))
    done = subprocess.run([str(TOOL), *subcommands, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    known = set(re.findall(r"--[a-z-]+", done.stdout))
    assert set(options) <= known


def test_the_first_deployment_sets_each_small_parameter_back():
    """CloudFormation keeps a value until another deployment changes it."""
    page = sections(ROOT / "docs" / "first-deployment.md")

    def given(section: str) -> dict[str, str]:
        (line,) = re.findall(r"""^    make deploy PARAMETERS=["'](.*)["']$""", page[section], re.MULTILINE)
        return dict(pair.split("=", 1) for pair in line.split())

    defaults = {name: str(each.get("Default", "")) for name, each in TEMPLATE["Parameters"].items()}
    raised = given("When the quota is raised")
    assert raised == {name: defaults[name] for name in raised}
    assert set(given("3. Deploy")) == {"AlarmTopicArn", *raised}


def test_event_pollers_are_removed_before_the_parameter_is_set_back():
    """CloudFormation leaves a property out that the template does not have, and Lambda then keeps provisioned mode."""
    assert "ProvisionedPollerConfig" in RESOURCES["ConsumerMapping"]["Properties"]
    text = sections(ROOT / "docs" / "deploy.md")["Event pollers"]
    removed = "    aws lambda update-event-source-mapping --uuid MAPPING_ID --provisioned-poller-config '{}'\n"
    assert removed in text and text.index(removed) < text.index("    make deploy PARAMETERS=ConsumerPollers=0\n")
    (row,) = [line for line in (ROOT / "docs" / "configuration.md").read_text().splitlines() if line.startswith("| `ConsumerPollers` |")]
    assert "deploy.md#event-pollers" in row
    assert "docs/deploy.md" in TEMPLATE["Parameters"]["ConsumerPollers"]["Description"]


def test_taking_a_stack_down_removes_first_what_keeps_it():
    """IAM refuses to delete a policy that is attached to somebody, and CloudFormation then fails to delete the stack."""
    policies = [name for name, each in RESOURCES.items() if each["Type"] == "AWS::IAM::ManagedPolicy"]
    outputs = [name for name, output in TEMPLATE["Outputs"].items() if output["Value"] in [{"Ref": policy} for policy in policies]]
    assert len(outputs) == len(policies) == 2
    text = sections(ROOT / "docs" / "deploy.md")["Take it down"]
    steps = text[: text.index("sam delete")]
    for output in outputs:
        assert f"`{output}`" in steps
        for command in ("list-entities-for-policy", "detach-role-policy --role-name ROLE"):
            assert f"    aws iam {command} --policy-arn {placeholder(output)}\n" in steps, command
    # A table that `DeletionProtection` protects cannot be deleted before its own protection is off.
    for table in ("InboxTableName", "CallsTableName"):
        disabled = f"    aws dynamodb update-table --table-name {placeholder(table)} --no-deletion-protection-enabled\n"
        assert disabled in text and text.index(disabled) < text.index(f"delete-table --table-name {placeholder(table)}")
    for page, section in (("recovery.md", "A table was deleted"), ("operate.md", "The console")):
        assert "deploy.md#take-it-down" in sections(ROOT / "docs" / page)[section]


# Services as the page about deploying names them, by the second part of the types of their resources.
SERVICES = {
    "ApiGatewayV2": "API Gateway",
    "ApplicationAutoScaling": "Application Auto Scaling",
    "CloudFormation": "CloudFormation",
    "CloudWatch": "CloudWatch",
    "CodeDeploy": "CodeDeploy",
    "DynamoDB": "DynamoDB",
    "Events": "EventBridge",
    "IAM": "IAM",
    "Lambda": "Lambda",
    "Logs": "CloudWatch Logs",
    "Scheduler": "Scheduler",
    "SecretsManager": "Secrets Manager",
    "SQS": "SQS",
}
# Words of that page for the resources of IAM, and the resources for which a service needs a role of its own in the account.
IAM_RESOURCES = {"AWS::IAM::Role": "roles", "AWS::IAM::Policy": "roles", "AWS::IAM::ManagedPolicy": "`iam:CreatePolicy`"}
SERVICE_LINKED_ROLES = {
    "AWS::ApplicationAutoScaling::ScalableTarget": "dynamodb.application-autoscaling.amazonaws.com",
    "AWS::Events::Connection": "apidestinations.events.amazonaws.com",
}


def test_the_page_names_every_service_that_a_deployment_uses():
    page = (ROOT / "docs" / "deploy.md").read_text()
    text = page[page.index("**Your own permissions.**") : page.index("A release is compiled already")]
    gradual = expand(ROOT / "template.yaml", {"Deployment": "Canary10Percent15Minutes"})
    nested = [TEMPLATES["infra/capacity.yaml"], TEMPLATES["infra/forward.yaml"]]
    assert len(nested) == len([each for each in RESOURCES.values() if each["Type"] == "AWS::CloudFormation::Stack"])
    types = {each["Type"] for template in (gradual, *nested) for each in template["Resources"].values()}
    named = set(re.findall(r"`([a-z-]+:[A-Za-z*]+)`", text))
    for kind in types:
        assert SERVICES[kind.split("::")[1]] in text, kind
        if kind.startswith("AWS::IAM::"):
            assert IAM_RESOURCES[kind] in text, kind
        assert f"`{SERVICE_LINKED_ROLES.get(kind, '')}`" in text or kind not in SERVICE_LINKED_ROLES, kind
    # DynamoDB makes grants for the key, so that it can use it later, in the name of who makes the table.
    assert {"iam:PassRole", "iam:CreateServiceLinkedRole", "kms:CreateGrant", "kms:DescribeKey", "kms:GenerateDataKey*", "kms:Decrypt"} <= named
