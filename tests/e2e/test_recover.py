"""The commands of docs/recovery.md, run by the tool against a local stack whose items are deleted behind its back."""

import json
import subprocess
from datetime import datetime, timezone

import botocore.session
import pytest

from harness import TOOL
from test_openapi import dev_stack, in_a_day

CALLS, INBOX = "switchhook-calls", "switchhook-inbox"


class Stack:
    def __init__(self, url: str):
        self.url = url
        session = botocore.session.get_session()
        self.tables = session.create_client(
            "dynamodb", endpoint_url=f"{url}/aws", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )

    def tool(self, *arguments: str) -> tuple[int, str, str]:
        done = subprocess.run([str(TOOL), *arguments, "--to", self.url], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def items(self, table: str, call_id: str) -> list[dict]:
        """Returns the items that belong to a call."""
        key = "call_id" if table == CALLS else "event_id"
        return [item for item in self.tables.scan(TableName=table)["Items"] if call_id in item[key]["S"]]

    def lose(self, table: str, items: list[dict]):
        key = "call_id" if table == CALLS else "event_id"
        for item in items:
            self.tables.delete_item(TableName=table, Key={key: item[key]})


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    with dev_stack(tmp_path_factory.mktemp("dev")) as url:
        yield Stack(url)


@pytest.fixture
def call(stack) -> str:
    """A placed call that is due much later."""
    request = ["call", "create", "--provider", "retell", "--from-number", "+442079460018", "--to-number", "+442079460019"]
    code, out, errors = stack.tool(*request, "--due", in_a_day(), "--allow-duplicate")
    assert code == 0, errors
    return out.split()[0]


def test_recover_copy_brings_lost_rows_back_and_leaves_others_alone(stack, call):
    restored = f"calls-restored-{call[-8:]}"
    key = [{"AttributeName": "call_id", "KeyType": "HASH"}]
    types = [{"AttributeName": "call_id", "AttributeType": "S"}]
    stack.tables.create_table(TableName=restored, BillingMode="PAY_PER_REQUEST", AttributeDefinitions=types, KeySchema=key)
    rows = stack.items(CALLS, call)
    for row in rows:
        stack.tables.put_item(TableName=restored, Item=row)
    stack.lose(CALLS, rows)
    assert rows and stack.items(CALLS, call) == []
    copy = ["recover", "copy", "--calls-from", restored]
    code, out, errors = stack.tool(*copy)
    assert code == 0 and f"calls: 1 item of {restored}, in 1 part, for example {call}" in out, errors
    assert stack.items(CALLS, call) == []
    code, _, errors = stack.tool(*copy, "--yes")
    assert code == 3 and "a reason is needed" in errors
    code, out, errors = stack.tool(*copy, "--yes", "--reason", "a table was lost")
    assert code == 0 and "finished: 1 done, 0 unchanged, 0 skipped" in out, errors
    assert len(stack.items(CALLS, call)) == 1 and "PENDING" in stack.tool("show", call)[1]
    code, out, errors = stack.tool(*copy, "--yes", "--reason", "once more", "--json")
    counts = json.loads(out)["run"]["counts"]
    assert (code, counts) == (0, {"done": 0, "unchanged": 1, "skipped": 0}), errors
    code, _, errors = stack.tool("recover", "copy", "--calls-from", CALLS)
    assert code == 3 and "name the table that was restored" in errors


def test_recover_inbox_writes_what_the_rows_know(stack, call):
    lost = stack.items(INBOX, call)
    stack.lose(INBOX, lost)
    assert lost
    code, out, errors = stack.tool("recover", "inbox", "--since", "1h")
    assert code == 0 and "Nothing has changed" in out, errors
    assert stack.items(INBOX, call) == []
    code, _, errors = stack.tool("recover", "inbox", "--since", "1h", "--yes")
    assert code == 3 and "a reason is needed" in errors
    code, out, errors = stack.tool("recover", "inbox", "--since", "1h", "--yes", "--reason", "the inbox was restored")
    assert code == 0 and "finished" in out, errors
    assert {item["event_id"]["S"] for item in stack.items(INBOX, call)} >= {item["event_id"]["S"] for item in lost}


def test_recover_stop_ends_calls_whose_dials_nobody_knows(stack, call):
    since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    code, out, errors = stack.tool("recover", "stop", "--since", since, "--keep-not-due")
    assert code == 1 and call not in out, errors
    code, out, errors = stack.tool("recover", "stop", "--since", since)
    assert code == 0 and call in out and "Nothing has changed" in out, errors
    assert "PENDING" in stack.tool("show", call)[1]
    code, out, errors = stack.tool("recover", "stop", "--since", since, "--yes", "--reason", "both tables were restored")
    assert code == 0 and "finished" in out, errors
    shown = stack.tool("show", call)[1]
    assert "FAILED" in shown and "dials_unknown" in shown
    code, _, errors = stack.tool("recover", "stop", "--since", since)
    assert code == 1, errors
