"""Foundation of the deployed tests: a local AWS endpoint, the deployed template, and waiting with a time limit."""

import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import boto3
from botocore.config import Config
from sign import sign

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ["ingress", "consumer", "relay", "scheduler", "dialer", "reconciler", "api"]
REGION = "us-east-1"

ARCHITECTURE = {"x86_64": "x86_64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine()]

# A release (`make release`). If the variable is set, the tests use its template, its functions and its tool, and nothing that was built here.
DIST = Path(os.environ["SWITCHHOOK_E2E_DIST"]) if "SWITCHHOOK_E2E_DIST" in os.environ else None
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def release_folder(architecture: str) -> Path:
    """Returns the folder of the release that is deployed to an architecture."""
    return DIST / f"switchhook-{VERSION}-{architecture}"


def release_tool(architecture: str) -> Path:
    return DIST / f"switchhook-{VERSION}-linux-{architecture}"


# The folder that is deployed: of the release, or the output of `sam build` for this machine (`make functions`). That has the template,
# changed only in the folders of the code.
BUILT = release_folder(ARCHITECTURE) if DIST else Path(os.environ.get("SWITCHHOOK_E2E_BUILD", ROOT / ".aws-sam" / "local"))

# Test keys, also used by the sample events.
PROVIDERS = json.loads((ROOT / "events" / "keys.json").read_text())

# The `switchhook` binary (`make provider`), which contains the fake provider.
TOOL = release_tool(ARCHITECTURE) if DIST else Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "switchhook"

# Emulators do not check credentials, but the SDKs require some.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION}


def wait_for(what: str, probe, seconds: float = 30, every: float = 0.25):
    """Calls `probe` until it returns a true value, and returns that value. Raises TimeoutError with `what` after the time limit."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not happen within {seconds:g} s: {what}")
        time.sleep(every)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def base_environment() -> dict:
    """Returns the environment of the caller without its AWS credentials, so that no test reaches a real account."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # The emulator on the loopback interface must not be reached through a proxy.
    kept["NO_PROXY"] = kept["no_proxy"] = "127.0.0.1,localhost"
    return kept | CREDENTIALS | {"SAM_CLI_TELEMETRY": "0"}


@contextmanager
def child_process(command, log_path: Path, environment: dict, cwd: Path):
    """Runs a server in a process group of its own, and always ends that group afterwards."""
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
    """Runs MiniStack on a free port of the loopback interface. Yields its endpoint."""
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    scratch = folder / "tmp"
    scratch.mkdir(parents=True)
    environment = base_environment() | {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        # These servers would listen on every interface, and no test needs them.
        "SFTP_ENABLED": "0",
        "IOT_MTLS_ENABLED": "0",
        # MiniStack unpacks the functions into its temporary folder and does not delete them.
        "TMPDIR": str(scratch),
        "STATE_DIR": str(scratch / "state"),
    }
    log = folder / "ministack.log"
    with child_process([sys.executable, "-m", "ministack"], log, environment, folder) as process:

        def healthy():
            if process.poll() is not None:
                raise RuntimeError(f"MiniStack exited with code {process.returncode}:\n{tail(log)}")
            try:
                with urllib.request.urlopen(f"{endpoint}/_ministack/health", timeout=2) as answer:
                    return answer.status == 200
            except OSError:
                return False

        wait_for("MiniStack is healthy", healthy, seconds=60)
        yield endpoint


# Binaries from the archives of a release.
UNPACKED = tempfile.TemporaryDirectory(prefix="switchhook-e2e-")


def bootstrap(function: str, architecture: str = ARCHITECTURE) -> Path:
    """Returns the path of the binary of a function. Only a release has those of both architectures."""
    if DIST:
        path = Path(UNPACKED.name) / architecture / function / "bootstrap"
        if not path.exists():
            with zipfile.ZipFile(release_folder(architecture) / "functions" / f"{function}-{VERSION}-{architecture}.zip") as archive:
                archive.extractall(path.parent)
            path.chmod(0o755)
        return path
    path = BUILT / f"{function.capitalize()}Function" / "bootstrap"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; build it with: make functions")
    return path


def run(command: list, environment: dict, cwd: Path, seconds: float) -> str:
    """Runs a command and returns its output. Raises if it fails or takes longer."""
    done = subprocess.run(
        command, env=environment, cwd=cwd, timeout=seconds, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} exited with code {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


@dataclass
class Answer:
    status: int
    body: str

    def json(self):
        return json.loads(self.body)


class Cloud:
    """An AWS endpoint and its clients."""

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
    """The deployed stack: its outputs, and requests to its HTTP API."""

    def __init__(self, cloud: Cloud, name: str, outputs: dict):
        self.cloud = cloud
        self.name = name
        self.outputs = outputs
        api_id = outputs["ApiUrl"].removeprefix("https://").split(".")[0]
        # Emulators serve all APIs on one port and select one by the Host header. The domain of LocalStack is
        # execute-api.localhost.localstack.cloud.
        domain = os.environ.get("SWITCHHOOK_E2E_API_DOMAIN", "execute-api.localhost")
        self.host = f"{api_id}.{domain}:{cloud.endpoint.rsplit(':', 1)[1]}"
        # URL of the same API for clients that cannot set the Host header. Both emulators support this path.
        self.url = f"{cloud.endpoint}/_aws/execute-api/{api_id}/$default"

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

    def post(self, provider: str, body: bytes, headers: dict, query: str = "") -> Answer:
        return self.http("POST", f"/webhooks/{provider}{query}", body, headers)

    def post_signed(self, provider: str, body, query: str = "", content_type: str = "application/json") -> Answer:
        """Posts a webhook with the signature of its provider. A dict is sent as JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = sign(provider, PROVIDERS, f"/webhooks/{provider}{query}", raw)
        return self.post(provider, raw, headers | {"content-type": content_type}, query)

    def create(self, new_call: dict, key: str | None = None) -> Answer:
        headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
        return self.http("POST", "/calls", json.dumps(new_call).encode(), headers)

    def post_action(self, action: str, call_id: str) -> Answer:
        return self.http("POST", f"/call/{action}?id={quote(call_id, safe='')}")

    def invoke(self, output: str, payload: dict | None = None):
        """Invokes a function as its schedule does. `output` is the output of the stack that has its name."""
        answer = self.cloud.client("lambda").invoke(FunctionName=self.outputs[output], Payload=json.dumps(payload or {}).encode())
        payload = answer["Payload"].read()
        assert "FunctionError" not in answer, payload

    def call(self, call_id: str) -> Answer:
        return self.http("GET", f"/call?id={quote(call_id, safe='')}")

    def call_events(self, call_id: str) -> Answer:
        return self.http("GET", f"/call/events?id={quote(call_id, safe='')}")

    def event_status(self, event_id: str) -> Answer:
        return self.http("GET", f"/event/status?id={quote(event_id, safe='')}")


class Mailbox:
    """All messages that ever arrived in a queue. Received messages are deleted from the queue, so each is received once."""

    def __init__(self, cloud: Cloud, url: str):
        self.sqs = cloud.client("sqs")
        self.url = url
        self.bodies = []

    def matching(self, predicate) -> list:
        while found := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                self.bodies.append(message["Body"])
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return [body for body in self.bodies if predicate(body)]

    def expect(self, what: str, predicate, seconds: float = 60) -> list:
        return wait_for(what, lambda: self.matching(predicate), seconds)


class Provider:
    """The fake provider, `switchhook fake`, which the stack uses instead of Retell."""

    def __init__(self, url: str):
        self.url = url

    def statistics(self) -> dict:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/dials", timeout=10) as answer:
            return json.load(answer)

    def dials(self, call_id: str) -> list:
        """Returns the dials of a call."""
        return [dial for dial in self.statistics()["dials"] if dial["call_id"] == call_id]


@contextmanager
def fake_provider(stack: Stack, port: int, folder: Path):
    if not TOOL.is_file():
        raise FileNotFoundError(f"{TOOL} is missing; build it with: make provider")
    log = folder / "provider.log"
    # fmt: off
    command = [str(TOOL), "fake", "--port", str(port), "--key", PROVIDERS["retell"]["keys"][0],
               "--webhooks-to", f"{stack.url}/webhooks/retell", "--delivery-faults", "none", "--seed", "7"]
    # fmt: on
    with child_process(command, log, base_environment(), folder) as process:

        def listening():
            if process.poll() is not None:
                raise RuntimeError(f"the provider exited with code {process.returncode}:\n{tail(log)}")
            return "listening on" in log.read_text()

        wait_for("the provider listens", listening)
        yield Provider(f"http://127.0.0.1:{port}")


@contextmanager
def deployed(cloud: Cloud, parameters: dict):
    """Deploys the built template with `sam deploy`, as a user does. Afterwards deletes the stack and the tables that it retains."""
    name = f"switchhook-e2e-{os.getpid()}"
    overrides = [f"{key}={value}" for key, value in parameters.items()]
    environment = cloud.environment
    if DIST:
        # A release needs nothing but SAM, so no other tool is on the search path.
        environment = environment | {"PATH": "/usr/bin:/bin"}
    # fmt: off
    run([str(Path(sys.executable).parent / "sam"), "deploy", "--template-file", str(BUILT / "template.yaml"),
         "--config-file", str((BUILT if DIST else ROOT) / "samconfig.toml"), "--stack-name", name, "--region", REGION,
         "--no-confirm-changeset", "--no-progressbar", "--parameter-overrides", *overrides],
        environment, BUILT, seconds=240)
    # fmt: on
    cloudformation = cloud.client("cloudformation")
    described = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    stack = Stack(cloud, name, {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]})
    try:
        set_redrive_policy(cloud, stack, parameters["MaxReceiveCount"])
        yield stack
    finally:
        # `sam delete` fails here: it needs a field of the stack that MiniStack does not set.
        cloudformation.delete_stack(StackName=name)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120})
        delete_retained_tables(cloud, stack)


def set_redrive_policy(cloud: Cloud, stack: Stack, max_receive_count: str):
    """Sets the redrive policy of the template, which the CloudFormation of MiniStack ignores although its SQS supports it.

    test_template.py checks that the template has the policy.
    """
    sqs = cloud.client("sqs")
    url = stack.outputs["EventsQueueUrl"]
    if "RedrivePolicy" in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]:
        return
    dlq = sqs.get_queue_attributes(QueueUrl=stack.outputs["EventsDlqUrl"], AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = {"deadLetterTargetArn": dlq, "maxReceiveCount": max_receive_count}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})


def delete_retained_tables(cloud: Cloud, stack: Stack):
    """Deletes the tables, which the template retains when its stack is deleted."""
    dynamodb = cloud.client("dynamodb")
    for table in (stack.outputs["InboxTableName"], stack.outputs["CallsTableName"]):
        try:
            dynamodb.delete_table(TableName=table)
        except dynamodb.exceptions.ResourceNotFoundException:
            pass  # the emulator ignores DeletionPolicy and has deleted the table already


def zipped_size(path: Path, scratch: Path) -> int:
    archive = scratch / f"{path.parent.name}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as code:
        code.write(path, path.name)
    return archive.stat().st_size
