"""Tests of a release as it is in dist/ (`make test-dist`). The other deployed tests run on the same release.

The functions for the other architecture run in QEMU, under the Lambda runtime interface emulator: they start, poll, and answer an event.
They are the same binaries that Lambda would run, so this also finds a missing library and an instruction that is not supported.
"""

import hashlib
import json
import re
import subprocess

import pytest

from harness import ARCHITECTURE, DIST, FUNCTIONS, VERSION, bootstrap, release_folder, release_tool
from rie import emulated, sample
from test_package import BINARY_BYTES_MAX, ZIP_BYTES_MAX

MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
OTHER = {"arm64": "x86_64", "x86_64": "arm64"}[ARCHITECTURE]
QEMU = [f"/usr/bin/qemu-{MACHINES[OTHER]}-static", "-L", f"/usr/{MACHINES[OTHER]}-linux-gnu"]

# Number of each architecture in the header of an ELF file.
ELF_MACHINES = {"arm64": 0xB7, "x86_64": 0x3E}
# Amazon Linux 2023, the system of the runtime provided.al2023, has this version of the C library.
GLIBC_MAX = (2, 34)


def glibc_versions(binary: bytes) -> set:
    """Returns the versions of the C library that a binary requires."""
    return {tuple(map(int, version.split(b"."))) for version in re.findall(rb"\bGLIBC_(\d+\.\d+)", binary)}


def test_checksums_cover_every_file_and_are_right():
    lines = [line.split("  ", 1) for line in (DIST / "SHA256SUMS").read_text().splitlines()]
    files = {path.relative_to(DIST).as_posix() for path in DIST.rglob("*") if path.is_file()} - {"SHA256SUMS"}
    assert {name for _, name in lines} == files
    wrong = [name for digest, name in lines if hashlib.sha256((DIST / name).read_bytes()).hexdigest() != digest]
    assert not wrong


@pytest.mark.parametrize("architecture", MACHINES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_for_its_architecture_and_small(function, architecture):
    binary = bootstrap(function, architecture).read_bytes()
    archive = release_folder(architecture) / "functions" / f"{function}-{VERSION}-{architecture}.zip"
    print(f"{function}, {architecture}: {len(binary) / 1e6:.2f} MB, zipped {archive.stat().st_size / 1e6:.2f} MB")
    assert (binary[:4], int.from_bytes(binary[18:20], "little")) == (b"\x7fELF", ELF_MACHINES[architecture])
    assert len(binary) <= BINARY_BYTES_MAX
    assert archive.stat().st_size <= ZIP_BYTES_MAX
    versions = glibc_versions(binary)
    assert versions and max(versions) <= GLIBC_MAX, sorted(versions)


@pytest.mark.parametrize("architecture", MACHINES)
def test_the_tool_tells_the_version_of_the_release(architecture):
    command = ([] if architecture == ARCHITECTURE else QEMU) + [str(release_tool(architecture)), "--version"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == f"switchhook {VERSION}\n"


def test_the_bill_of_materials_names_what_is_in_the_binaries():
    bill = json.loads((DIST / f"switchhook-{VERSION}.cdx.json").read_text())
    components = {component["bom-ref"]: component for component in bill["components"]}
    names = {component["name"] for component in components.values()}
    assert {"switchhook-cli", "switchhook-domain", "lambda_runtime", "aws-sdk-dynamodb", "ring"} <= names
    assert {f"switchhook-{function}" for function in FUNCTIONS} <= names
    # Packages of tests are in no binary.
    assert not {"proptest", "insta"} & names
    assert bill["metadata"]["component"]["version"] == VERSION
    references = {reference for each in bill["dependencies"] for reference in [each["ref"], *each["dependsOn"]]}
    assert references <= {"switchhook"} | components.keys()
    licences = (DIST / "THIRD-PARTY-LICENSES.txt").read_text()
    assert all(f"\n{each['name']} {each['version']} (" in licences for each in components.values() if each["bom-ref"].startswith("registry+"))


def accepted(answer: dict) -> bool:
    return answer["statusCode"] == 200 and json.loads(answer["body"])["status"] in ("accepted", "already_processed")


def without_failures(answer: dict) -> bool:
    return answer == {"batchItemFailures": []}


@pytest.mark.parametrize(
    ("function", "event", "is_right"),
    [
        ("ingress", "ingress-generic", accepted),
        ("ingress", "ingress-retell", accepted),
        ("ingress", "ingress-twilio", accepted),
        ("consumer", "consumer-batch", without_failures),
        ("relay", None, without_failures),
        ("scheduler", "scheduler-tick", lambda answer: "claimed" in answer),
        ("dialer", "dialer-batch", lambda answer: answer is None),
        ("reconciler", "reconciler-tick", lambda answer: "swept_minutes" in answer),
        ("api", "api-call", lambda answer: answer["statusCode"] in (200, 404)),
    ],
)
def test_a_function_for_the_other_architecture_answers(cloud, stack, tmp_path, function, event, is_right):
    program = tmp_path / "bootstrap"
    program.write_text(f'#!/bin/sh\nexec {" ".join(QEMU)} {bootstrap(function, OTHER)}\n')
    program.chmod(0o755)
    with emulated(cloud, stack, function, program, tmp_path) as invoke:
        answer = invoke(sample(event) if event else {"Records": []})
    assert is_right(answer), answer
