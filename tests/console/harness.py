"""A `switchhook dev` with some calls in it, and a browser that looks at its pages."""

import hashlib
import hmac
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "switchhook"
KEYS = ROOT / "events" / "keys.json"

# The ready line: `listening on http://127.0.0.1:PORT; look at it: LINK`.
READY = re.compile(r"listening on (?P<api>http://[^;]+); look at it: (?P<link>http://\S+)")
# Last line of the demo.
LOOK_AT = "look at these calls: "
# Calls of the demo that tests look at: enough for every kind of trouble that it makes.
DEMO_CALLS = 24
# Seconds that a test waits at most, on a slow machine.
WAIT_MAX = 60


def wait_for(what: str, probe, seconds: float = WAIT_MAX, every: float = 0.1):
    """Calls `probe` until it returns a true value, and returns that value. Raises TimeoutError with `what` after the time limit."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := probe():
            return found
        time.sleep(every)
    raise TimeoutError(what)


def chromium() -> str:
    """Returns the path of the browser. Debian's package installs `chromium`."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise RuntimeError("Chromium is missing: on Debian and Ubuntu, apt install chromium")


def ago(**span: float) -> str:
    """Returns a time before now, as webhooks have it."""
    return (datetime.now(timezone.utc) - timedelta(**span)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Dev:
    """A running `switchhook dev`."""

    process: subprocess.Popen
    api: str
    link: str
    folder: tempfile.TemporaryDirectory
    calls: list[str] = field(default_factory=list)

    @property
    def pages(self) -> str:
        """Origin of the pages, for example `http://switchhook.localhost:8787`."""
        return self.link.split("/?")[0]

    @property
    def port(self) -> int:
        return int(self.api.rsplit(":", 1)[1])

    def run(self, *arguments: str) -> str:
        """Runs a command of the tool against this stack, and returns what it prints."""
        command = [TOOL, *arguments, "--to", self.api]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_MAX, env=environment(self.folder.name))
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{arguments}: {done.stderr}")
        return done.stdout

    def get(self, path: str) -> dict:
        with urllib.request.urlopen(self.api + path, timeout=WAIT_MAX) as response:
            return json.load(response)

    def call(self, call_id: str) -> dict:
        return self.get("/call?" + urlencode({"id": call_id}))

    def events(self, call_id: str) -> list[dict]:
        """Returns the events of a call that are folded. It is empty until the first fold creates the call."""
        try:
            return self.get("/call/events?" + urlencode({"id": call_id}))["events"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return []

    def send(self, sample: str, *arguments: str) -> None:
        """Sends a sample webhook, signed as its provider signs."""
        provider = sample.split("/")[0]
        self.run("send", "--provider", provider, "--providers", providers_file(self.folder.name), "--sample", sample, *arguments)

    def post_event(self, event: dict | bytes) -> None:
        """Posts a webhook of the generic provider. Bytes are sent as they are."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        at = str(int(time.time()))
        key = json.loads(KEYS.read_text())["generic"]["keys"][0]
        signature = hmac.new(key.encode(), at.encode() + b"." + body, hashlib.sha256).hexdigest()
        headers = {"content-type": "application/json", "x-webhook-timestamp": at, "x-webhook-signature": f"sha256={signature}"}
        request = urllib.request.Request(f"{self.api}/webhooks/generic", data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=WAIT_MAX) as response:
            assert response.status == 200, response.status

    def aws(self, service: str, operation: str, body: dict) -> dict:
        """Sends an AWS request to the local tables and queues."""
        headers = {
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": operation,
            "authorization": f"AWS4-HMAC-SHA256 Credential=local/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0",
        }
        request = urllib.request.Request(f"{self.api}/aws", data=json.dumps(body).encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=WAIT_MAX) as response:
            return json.load(response)

    def create_call(self, number: str, appointment: str) -> str:
        call = {"provider": "retell", "from": "+442079460018", "to": number, "appointment_id": appointment}
        request = urllib.request.Request(f"{self.api}/calls", data=json.dumps(call).encode(), headers={"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=WAIT_MAX) as response:
            self.calls.append(json.load(response)["call_id"])
        return self.calls[-1]

    def fill(self) -> None:
        """Makes calls in several states, and webhooks that cannot be folded."""
        for index in range(8):
            self.create_call(f"+4477009001{20 + index}", f"appt_{201 + index}")
        self.send("retell/call_ended")
        self.send("twilio/completed")
        self.send("generic/user_confirmed")
        self.quarantine(3)
        wait_for("the calls are dialled", lambda: all(self.call(call)["attempts"] for call in self.calls))

    def quarantine(self, count: int) -> None:
        """Sends signed webhooks whose content cannot be read."""
        for index in range(count):
            self.post_event(f"no JSON: {index}".encode())

    def request(self, path: str, headers: dict[str, str], method: str = "GET", body: bytes | None = None) -> int:
        """Sends a request with exactly these headers, and returns the status of the response."""
        request = urllib.request.Request(self.api + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_MAX) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=WAIT_MAX)
        finally:
            self.process.kill()
            self.folder.cleanup()

    @classmethod
    def start(cls, *arguments: str) -> "Dev":
        """Starts a stack without delivery faults: a webhook that is late or lost would come after the longest wait of a test."""
        folder = tempfile.TemporaryDirectory(prefix="switchhook-console-")
        keys = providers_file(folder.name)
        return cls.launch(folder, ["dev", "--providers", keys, "--delivery-faults", "none", "--seed", "7", "--tick", "1s", *arguments])

    @classmethod
    def of_demo(cls, *arguments: str) -> "Dev":
        """Follows the last line that `make demo` prints: the calls of the demo, with the time stopped at its end. A test of the tool
        holds that line against README.md."""
        folder = tempfile.TemporaryDirectory(prefix="switchhook-console-")
        lines = (ROOT / "README.md").read_text().splitlines()
        (commands,) = (line.removeprefix(LOOK_AT) for line in lines if line.startswith(LOOK_AT))
        demo, dev = (shlex.split(command) for command in commands.split(" && "))
        assert demo[0] == dev[0] == "target/debug/switchhook", commands
        subprocess.run(
            [TOOL, *demo[1:], *arguments], cwd=folder.name, capture_output=True, check=True, timeout=10 * WAIT_MAX, env=environment(folder.name)
        )
        return cls.launch(folder, dev[1:])

    @classmethod
    def launch(cls, folder: tempfile.TemporaryDirectory, arguments: list[str]) -> "Dev":
        if not TOOL.exists():
            raise RuntimeError(f"{TOOL} is missing: run make test-console")
        log = open(Path(folder.name) / "log", "w")
        process = subprocess.Popen(
            [TOOL, *arguments, "--port", "0"], cwd=folder.name, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True,
            env=environment(folder.name),
        )
        line = process.stdout.readline()
        if not (ready := READY.search(line)):
            process.kill()
            raise RuntimeError(f"switchhook dev did not start: {line}{Path(log.name).read_text()}")
        return cls(process, ready["api"], ready["link"], folder)


def environment(folder: str) -> dict[str, str]:
    # Other commands of this user must not find this stack.
    return {**os.environ, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder, "NO_PROXY": "*"}


def providers_file(folder: str) -> str:
    """Writes the keys of the samples, with an account that places calls."""
    providers = json.loads(KEYS.read_text())
    providers["retell"]["dial"] = {"api_key": "test-account-of-retell"}
    path = Path(folder) / "providers.json"
    path.write_text(json.dumps(providers))
    return str(path)
