"""Tests of the values that a deployment gives to the parameters: on the way from the command line, SAM gets the text that was meant."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from parameters import overrides, parameters, refuse_early_shards
from samcli.cli.types import CfnParameterOverridesType

from harness import ROOT

WINDOW = "Europe/London 09:00-18:00 mon,tue"


def as_sam_reads(text: str) -> dict[str, str]:
    """Returns the values that SAM reads from the text behind --parameter-overrides. It leaves out what it cannot read, and says nothing."""
    return CfnParameterOverridesType().convert((text,), None, None)


def test_a_value_with_spaces_keeps_its_quotes_for_sam():
    assert parameters("default", [f'CallingWindow="{WINDOW}" ApiBurst=7'])["CallingWindow"] == f'"{WINDOW}"'
    assert as_sam_reads(overrides("default", [f'CallingWindow="{WINDOW}" ApiBurst=7'])) == {
        "Architecture": "arm64",
        "CallingWindow": WINDOW,
        "ApiBurst": "7",
    }
    with pytest.raises(SystemExit):
        parameters("default", ["CallingWindow=Europe/London 09:00-18:00"])
    with pytest.raises(SystemExit):
        parameters("production", [])


def test_a_correction_is_deployed_at_once_in_prod_too():
    given = as_sam_reads(overrides("prod", ['Deployment=AllAtOnce DialRates=""']))
    assert parameters("prod", [])["Deployment"] != given["Deployment"] == "AllAtOnce"
    assert given["DialRates"] == ""


def test_a_window_with_an_unknown_time_zone_is_not_deployed():
    with pytest.raises(SystemExit, match="Europe/Nowhere"):
        parameters("default", ['CallingWindow="Europe/Nowhere 09:00-18:00"'])
    assert parameters("default", ['CallingWindow="europe/london 09:00-18:00"'])


@pytest.mark.parametrize("given", ["IndexShards=4,2026-12-01T09:59:59Z=16", 'ApiBurst=7 IndexShards="4,2025-12-01T12:00:00Z=16"'])
def test_more_shards_must_wait_until_the_deployment_has_ended(given):
    now = datetime(2026, 12, 1, 8, tzinfo=UTC)
    with pytest.raises(SystemExit, match="2026-12-01T10:00:00Z or later"):
        refuse_early_shards([given], now)
    refuse_early_shards(["IndexShards=4,2026-12-01T10:00:00Z=16", "IndexShards=16", ""], now)


@pytest.mark.parametrize("given", ["DialRates=", 'DialRates=""', "ApiBurst=7 DialRates=", "DialRates= ApiBurst=7", 'DialRates="" ApiBurst=7'])
def test_an_empty_value_reaches_sam(given):
    """Otherwise CloudFormation keeps the value of the deployment before, and phones go on ringing."""
    assert as_sam_reads(overrides("default", [given]))["DialRates"] == ""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("DialRates= AlarmTopicArn=", {"DialRates": "", "AlarmTopicArn": ""}),
        ('DialRates=""', {"DialRates": ""}),
        ("DialRates=*=1 ApiBurst=7", {"DialRates": "*=1", "ApiBurst": "7"}),
        (f'CallingWindow="{WINDOW}" DialRates=', {"CallingWindow": WINDOW, "DialRates": ""}),
    ],
)
def test_make_hands_each_value_to_sam(given, expected, tmp_path):
    """Make runs its real commands, with a program in the place of SAM that stores its arguments."""
    venv, seen = tmp_path / "venv", tmp_path / "seen"
    (venv / "bin").mkdir(parents=True)
    sam = venv / "bin" / "sam"
    sam.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]), file=open({str(seen)!r}, 'a'))\n")
    sam.chmod(0o755)
    (venv / "installed").touch()
    # Neither Rust nor the tools are needed, because nothing is compiled.
    command = ["make", "--no-print-directory", "--old-file=need-rust", f"PYTHON={sys.executable}", f"VENV={os.path.relpath(venv, ROOT)}"]
    subprocess.run([*command, "deploy", f"PARAMETERS={given}"], cwd=ROOT, check=True, capture_output=True, timeout=60)
    build, deploy = [json.loads(line) for line in seen.read_text().splitlines()]
    assert (build[0], deploy[0]) == ("build", "deploy")
    for arguments in (build, deploy):
        text = arguments[arguments.index("--parameter-overrides") + 1]
        assert as_sam_reads(text) == {"Architecture": "arm64"} | expected
