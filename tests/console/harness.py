"""A `switchhook dev` with some calls in it, and a browser that looks at its pages."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "switchhook"
KEYS = ROOT / "events" / "keys.json"

# The ready line: `listening on http://127.0.0.1:PORT; look at it: LINK`.
READY = re.compile(r"listening on (?P<api>http://[^;]+); look at it: (?P<link>http://\S+)")


def wait_for(what: str, probe, seconds: float = 20, every: float = 0.1):
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
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=self.environment(self.folder.name))
        if done.returncode not in (0, 1):
            raise RuntimeError(f"{arguments}: {done.stderr}")
        return done.stdout

    def send(self, sample: str, *arguments: str) -> None:
        """Sends a sample webhook, signed as its provider signs."""
        provider = sample.split("/")[0]
        self.run("send", "--provider", provider, "--providers", providers_file(self.folder.name), "--sample", sample, *arguments)

    def create_call(self, number: str, appointment: str) -> str:
        printed = self.run(
            "call", "create", "--provider", "retell", "--from-number", "+442079460018", "--to-number", number, "--appointment", appointment
        )
        self.calls.append(re.search(r"call-[0-9a-f]+", printed).group())
        return self.calls[-1]

    def fill(self) -> None:
        """Makes calls in several states, and webhooks that cannot be folded."""
        for index in range(8):
            self.create_call(f"+4477009001{20 + index}", f"appt_{201 + index}")
        self.send("retell/call_ended")
        self.send("twilio/completed")
        self.send("generic/user_confirmed")
        self.quarantine(3)
        listed = lambda: '"COMPLETED"' in self.run("call", "list", "--json") or "COMPLETED" in self.run("call", "list")
        wait_for("a call is completed", listed, seconds=60, every=0.5)

    def quarantine(self, count: int) -> None:
        """Sends signed webhooks whose content cannot be read."""
        providers = providers_file(self.folder.name)
        for index in range(count):
            file = Path(self.folder.name) / f"unreadable-{index}.json"
            file.write_text(f"no JSON: {index}")
            self.run("send", "--provider", "generic", "--providers", providers, "--file", str(file))

    def request(self, path: str, headers: dict[str, str], method: str = "GET", body: bytes | None = None) -> int:
        """Sends a request with exactly these headers, and returns the status of the response."""
        request = urllib.request.Request(self.api + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return response.status
        except urllib.error.HTTPError as error:
            return error.code

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        finally:
            self.process.kill()
            self.folder.cleanup()

    @staticmethod
    def environment(folder: str) -> dict[str, str]:
        # Other commands of this user must not find this stack.
        return {**os.environ, "XDG_STATE_HOME": folder, "XDG_CONFIG_HOME": folder, "NO_PROXY": "*"}

    @classmethod
    def start(cls, *arguments: str) -> "Dev":
        if not TOOL.exists():
            raise RuntimeError(f"{TOOL} is missing: run make test-console")
        folder = tempfile.TemporaryDirectory(prefix="switchhook-console-")
        log = open(Path(folder.name) / "log", "w")
        command = [TOOL, "dev", "--port", "0", "--providers", providers_file(folder.name), "--seed", "7", "--tick", "1s", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True, env=cls.environment(folder.name)
        )
        line = process.stdout.readline()
        if not (ready := READY.search(line)):
            process.kill()
            raise RuntimeError(f"switchhook dev did not start: {line}{Path(log.name).read_text()}")
        return cls(process, ready["api"], ready["link"], folder)


def providers_file(folder: str) -> str:
    """Writes the keys of the samples, with an account that places calls."""
    providers = json.loads(KEYS.read_text())
    providers["retell"]["dial"] = {"api_key": "test-account-of-retell"}
    path = Path(folder) / "providers.json"
    path.write_text(json.dumps(providers))
    return str(path)
