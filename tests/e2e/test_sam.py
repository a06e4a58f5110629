"""Plain `sam build` and `sam deploy` say what is missing, as the page about deploying promises."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness import ROOT

SAM = Path(sys.executable).parent / "sam"


def sam(*arguments: str, folder: Path, path: str) -> str:
    """Runs a command that must fail, and returns what it says. No request could reach AWS."""
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}
    # Cargo also looks for its subcommands below its own folder.
    environment = os.environ | nowhere | {"PATH": path, "SAM_CLI_TELEMETRY": "0", "CARGO_HOME": str(ROOT / "nowhere")}
    done = subprocess.run([str(SAM), *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr


def test_a_build_without_cargo_lambda_says_what_is_missing(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "cargo").symlink_to(shutil.which("cargo"))
    said = sam("build", "--build-dir", str(tmp_path / "build"), folder=ROOT, path=f"{tools}:/usr/bin:/bin")
    assert "Cannot find Cargo Lambda" in said and "https://www.cargo-lambda.info" in said, said


def test_a_deployment_without_a_build_says_what_is_missing(tmp_path):
    for name in ("template.yaml", "samconfig.toml"):
        shutil.copy(ROOT / name, tmp_path)
    said = sam("deploy", "--no-confirm-changeset", folder=tmp_path, path=os.environ["PATH"])
    assert f"Template file not found at {tmp_path}/.aws-sam/build/template.yaml" in said.replace("\n", ""), said
