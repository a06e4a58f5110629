"""Measures `switchhook dev --data` under load from this machine (part of `make bench`).

    python3 benches/local_stack.py PROGRAM

The load is a fixed number of signed webhooks of whole calls, over connections that stay open. The stack is new, and its data directory
is on the disk of the folder for temporary files. Only the CPU time of the stack counts. docs/performance.md explains the results.
"""

import http.client
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from sign import sign  # noqa: E402

KEYS = {"generic": {"keys": ["a key of the generic provider, for the benchmark"]}}
PATH = "/webhooks/generic"
CONNECTIONS = 16
# Webhooks of one call, in an order in which some must wait for others.
STORY = [("call.ringing", 2), ("call.completed", 30), ("user.confirmed", 20), ("call.initiated", 1), ("call.in_progress", 10)]
THROUGHPUT_CALLS = 2_000
WARM_UP_CALLS = 100
# Paced runs: webhooks per second, and seconds.
PACES = [(290, 10), (2_000, 5)]
# Webhooks of a paced run whose latency is asked for.
SAMPLES = 1_000
DRAINED_WITHIN_SECONDS = 120


@dataclass
class Usage:
    """What the stack has used since its start."""

    cpu_ms: float
    bytes_written: int


class Stack:
    """A running `switchhook dev`."""

    def __init__(self, program: Path, folder: Path):
        providers = folder / "providers.json"
        providers.write_text(json.dumps(KEYS))
        command = [program, "dev", "--port", "0", "--seed", "1", "--data", folder / "data", "--providers", providers]
        self.log = (folder / "log").open("wb")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env={"XDG_STATE_HOME": str(folder)})
        ready = self.process.stdout.readline().decode()
        self.port = int(re.match(r"listening on http://127\.0\.0\.1:(\d+);", ready)[1])
        self.queue = self.json(self.connection(), "GET", "/stack")["events_queue_url"]

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def json(self, connection: http.client.HTTPConnection, method: str, path: str, body=None, headers=None) -> dict:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{method} {path}: {response.status}: {content.decode()}")
        return json.loads(content)

    def usage(self) -> Usage:
        """Reads the CPU time, in user and system mode, and the bytes that the stack caused to be written to the disk."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        written = re.search(r"^write_bytes: (\d+)", Path(f"/proc/{self.process.pid}/io").read_text(), re.MULTILINE)
        return Usage(ticks * 10, int(written[1]))

    def peak_memory(self) -> float:
        """Returns the largest resident set so far, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"^VmHWM:\s*(\d+) kB", status, re.MULTILINE)[1]) / 1024

    def wait_until_drained(self):
        """Waits until the events queue is empty, so that every acknowledged event is applied."""
        connection = self.connection()
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.GetQueueAttributes"}
        body = json.dumps({"QueueUrl": self.queue, "AttributeNames": ["All"]})
        until = time.monotonic() + DRAINED_WITHIN_SECONDS
        while time.monotonic() < until:
            attributes = self.json(connection, "POST", "/aws", body, headers)["Attributes"]
            if attributes["ApproximateNumberOfMessages"] == attributes["ApproximateNumberOfMessagesNotVisible"] == "0":
                return
            time.sleep(0.05)
        raise RuntimeError(f"the events queue was not empty within {DRAINED_WITHIN_SECONDS} s")

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def webhooks(name: str, calls: int) -> list:
    """Returns the ids and requests of the webhooks of calls. Neighbours are of different calls, as under real load."""
    made = []
    for first in range(0, calls, CONNECTIONS):
        for kind, second in STORY:
            for call in range(first, min(first + CONNECTIONS, calls)):
                event = {
                    "event_id": f"{name}-{call}-{kind}",
                    "event_type": kind,
                    "occurred_at": f"2026-10-20T10:00:{second:02}Z",
                    "call_id": f"{name}-{call}",
                    "call": {"sid": f"line-{name}-{call}", "from": "+442079460018", "to": "+447700900123"},
                }
                body = json.dumps(event, separators=(",", ":")).encode()
                made.append((body, {"content-type": "application/json"} | sign("generic", KEYS, PATH, body)))
    return made


def send(stack: Stack, requests: list, per_second: float | None) -> tuple[float, list]:
    """Sends all requests, each when a connection is free, and not before its time if there is a pace. Returns the seconds that it took, and the event ids."""
    ids, failures, position, lock = [], [], iter(requests), threading.Lock()
    started = time.monotonic()

    def sender():
        connection = stack.connection()
        while not failures:
            with lock:
                request = next(position, None)
                number = len(ids)
                ids.append(None)
            if request is None:
                return
            if per_second and (early := started + number / per_second - time.monotonic()) > 0:
                time.sleep(early)
            try:
                ids[number] = stack.json(connection, "POST", PATH, *request)["event_id"]
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                failures.append(error)

    threads = [threading.Thread(target=sender) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.monotonic() - started, ids[: len(requests)]


def latencies(stack: Stack, ids: list) -> list:
    """Returns the milliseconds from the receipt of events to their folds, sorted."""
    connection, found = stack.connection(), []
    for event_id in ids[:: max(1, len(ids) // SAMPLES)]:
        status = stack.json(connection, "GET", f"/event/status?id={quote(event_id, safe='')}")
        if status["status"] != "processed":
            raise RuntimeError(f"{event_id} is {status['status']}")
        found.append(status["duration_ms"])
    return sorted(found)


def percentile(values: list, percent: int) -> int:
    return values[min(len(values) - 1, len(values) * percent // 100)]


def row(*cells):
    print("|", " | ".join(map(str, cells)), "|")


def print_throughput(stack: Stack):
    requests = webhooks("full", THROUGHPUT_CALLS)
    before = stack.usage()
    seconds, _ = send(stack, requests, None)
    stack.wait_until_drained()
    after = stack.usage()
    row("webhooks", "webhooks/s", "ms of CPU per webhook", "KB written per webhook", "peak memory, MB")
    row("---:", "---:", "---:", "---:", "---:")
    count = len(requests)
    cpu, written = (after.cpu_ms - before.cpu_ms) / count, (after.bytes_written - before.bytes_written) / count / 1024
    row(count, f"{count / seconds:.0f}", f"{cpu:.2f}", f"{written:.1f}", f"{stack.peak_memory():.0f}")
    print()


def print_latencies(stack: Stack):
    row("webhooks/s wanted", "reached", "p50, ms", "p95, ms", "p99, ms", "max, ms")
    row("---:", "---:", "---:", "---:", "---:", "---:")
    for pace, for_seconds in PACES:
        requests = webhooks(f"paced-{pace}", pace * for_seconds // len(STORY))
        seconds, ids = send(stack, requests, pace)
        stack.wait_until_drained()
        found = latencies(stack, ids)
        row(f"{pace:,}", f"{len(requests) / seconds:.0f}", *(percentile(found, percent) for percent in (50, 95, 99)), found[-1])
    print()


def main():
    program = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="switchhook-bench-") as folder:
        stack = Stack(program, Path(folder))
        try:
            send(stack, webhooks("warm-up", WARM_UP_CALLS), None)
            stack.wait_until_drained()
            print("### The local stack\n", flush=True)
            print_throughput(stack)
            print_latencies(stack)
        finally:
            stack.stop()


if __name__ == "__main__":
    main()
