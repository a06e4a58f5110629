"""What the deployed tests stand on: a local AWS endpoint, the real template deployed to it, and bounded waiting."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"
FUNCTIONS = ["ingress", "consumer", "relay", "reconciler", "api"]
REGION = "us-east-1"

# Where `make test` leaves the release binaries; SWITCHHOOK_E2E_BINARIES names another folder with one file per function.
BINARIES = Path(os.environ.get("SWITCHHOOK_E2E_BINARIES", ROOT / "target" / "x86_64-unknown-linux-gnu" / "release"))

# Emulators check no credentials, but the SDKs do not start without some.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION}


def wait_for(what: str, probe, seconds: float = 30, every: float = 0.25):
    """Calls `probe` until it answers something true, and returns that; fails by name when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def base_environment() -> dict:
    """The caller's environment without its AWS account: nothing here may ever reach a real one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # Proxies are for the world outside; an emulator on loopback is not behind one.
    kept["NO_PROXY"] = kept["no_proxy"] = "127.0.0.1,localhost"
    return kept | CREDENTIALS | {"SAM_CLI_TELEMETRY": "0"}


@contextmanager
def child_process(command, log_path: Path, environment: dict, cwd: Path):
    """Runs a server in a process group of its own, and ends exactly that group afterwards, whatever happened."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, cwd=cwd, start_new_session=True
        )
    try:
        yield process
    finally:
        for end in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, end)
            except ProcessLookupError:
                break
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                continue


def tail(path: Path, lines: int = 40) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def ministack(folder: Path):
    """MiniStack on a free port of loopback; yields its endpoint."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    scratch = folder / "tmp"
    scratch.mkdir(parents=True)
    environment = base_environment() | {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        # It unpacks the functions into its temporary folder, and leaves them there.
        "TMPDIR": str(scratch),
        "STATE_DIR": str(scratch / "state"),
    }
    log = folder / "ministack.log"
    with child_process([sys.executable, "-m", "ministack"], log, environment, folder) as process:

        def healthy():
            if process.poll() is not None:
                raise RuntimeError(f"MiniStack ended with {process.returncode}:\n{tail(log)}")
            try:
                with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=2) as answer:
                    return answer.status == 200
            except OSError:
                return False

        wait_for("MiniStack is healthy", healthy, seconds=60)
        yield endpoint


def function_resources(template: dict) -> dict:
    return {name: each for name, each in template["Resources"].items() if each["Type"] == "AWS::Serverless::Function"}


def load_template() -> dict:
    from samcli.yamlhelper import yaml_parse

    return yaml_parse(TEMPLATE.read_text())


def deployable(folder: Path) -> Path:
    """The real template with one thing changed: each function's code is the folder of its built binary, so nothing is built."""
    template = load_template()
    del template["Globals"]["Function"]["CodeUri"]
    for resource in function_resources(template).values():
        binary = resource.pop("Metadata")["BuildProperties"]["Binary"]
        built = BINARIES / binary
        if not built.is_file():
            raise FileNotFoundError(f"{built} is missing; build it with: make functions")
        code = folder / binary
        code.mkdir(parents=True)
        shutil.copy2(built, code / "bootstrap")
        resource["Properties"]["CodeUri"] = f"./{binary}"
    path = folder / "template.json"
    path.write_text(json.dumps(template, indent=1, default=str))
    return path


def run(command: list, environment: dict, cwd: Path, seconds: float) -> str:
    done = subprocess.run(
        command, env=environment, cwd=cwd, timeout=seconds, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


@dataclass
class Answer:
    status: int
    body: str

    def json(self):
        return json.loads(self.body)


class Cloud:
    """One AWS endpoint, and the AWS clients that talk to it."""

    def __init__(self, endpoint: str):
        self.endpoint = endpoint
        self.environment = base_environment() | {"AWS_ENDPOINT_URL": endpoint}

    def client(self, service: str):
        return boto3.client(
            service,
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
            config=Config(proxies={}, connect_timeout=5, read_timeout=60, retries={"max_attempts": 2}),
        )


class Stack:
    """The deployed stack: its outputs, and HTTP to its front door."""

    def __init__(self, cloud: Cloud, name: str, outputs: dict):
        self.cloud = cloud
        self.name = name
        self.outputs = outputs
        api_id = outputs["ApiUrl"].removeprefix("https://").split(".")[0]
        # Emulators serve every API on one port and tell them apart by host; LocalStack's is execute-api.localhost.localstack.cloud.
        domain = os.environ.get("SWITCHHOOK_E2E_API_DOMAIN", "execute-api.localhost")
        self.host = f"{api_id}.{domain}:{cloud.endpoint.rsplit(':', 1)[1]}"

    def http(self, method: str, path: str, body: bytes | None = None, headers: dict | None = None) -> Answer:
        request = urllib.request.Request(self.cloud.endpoint + path, data=body, method=method, headers=(headers or {}) | {"Host": self.host})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as refusal:
            return Answer(refusal.code, refusal.read().decode())

    def queue_depth(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(found.get(name, 0)) for name in names)

    def take_messages(self, url: str) -> list:
        """Receives and deletes what is in a queue now, at most ten messages."""
        sqs = self.cloud.client("sqs")
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1, AttributeNames=["All"]).get("Messages", [])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found


@contextmanager
def deployed(cloud: Cloud, folder: Path, parameters: dict):
    """Deploys the template as a user would, with `sam deploy`; deletes the stack, and the tables it retains, afterwards."""
    name = "switchhook-e2e"
    template = deployable(folder)
    overrides = [f"{key}={value}" for key, value in parameters.items()]
    sam = [str(Path(sys.executable).parent / "sam")]
    # fmt: off
    run(sam + ["deploy", "--template-file", template.name, "--stack-name", name, "--region", REGION, "--resolve-s3",
               "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar", "--parameter-overrides"] + overrides,
        cloud.environment, folder, seconds=240)
    # fmt: on
    described = cloud.client("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    stack = Stack(cloud, name, {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]})
    try:
        yield stack
    finally:
        run(sam + ["delete", "--stack-name", name, "--region", REGION, "--no-prompts"], cloud.environment, folder, seconds=120)
        delete_retained_tables(cloud, stack)


def delete_retained_tables(cloud: Cloud, stack: Stack):
    """The template keeps its tables when the stack goes, as it should; a test must not."""
    dynamodb = cloud.client("dynamodb")
    for table in (stack.outputs["InboxTableName"], stack.outputs["CallsTableName"]):
        try:
            dynamodb.delete_table(TableName=table)
        except dynamodb.exceptions.ResourceNotFoundException:
            pass  # the emulator ignores DeletionPolicy


def zipped_size(path: Path, scratch: Path) -> int:
    archive = scratch / "code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as code:
        code.write(path, "bootstrap")
    return archive.stat().st_size
