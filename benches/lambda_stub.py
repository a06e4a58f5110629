"""Stub of the Lambda Runtime API and of AWS on the loopback interface, and the processes that it measures.

Its answers are prepared bytes, and its own CPU time is not counted: the kernel keeps a CPU clock for each process.
"""

import asyncio
import collections
import ctypes
import hashlib
import json
import os
import signal
import time
from email.utils import formatdate
from pathlib import Path

REGION = "us-east-1"
SECONDS_MAX = 300

LIBC = ctypes.CDLL(None, use_errno=True)


def cpu_clock(pid: int) -> int:
    """Returns the clock of the CPU time of a process, with all of its threads: user and system time, in nanoseconds."""
    clock = ctypes.c_int()
    failure = LIBC.clock_getcpuclockid(pid, ctypes.byref(clock))
    if failure:
        raise OSError(failure, os.strerror(failure), f"the CPU clock of process {pid}")
    return clock.value


def message(first_line: str, headers: dict, body: bytes) -> bytes:
    lines = [first_line, *(f"{name}: {value}" for name, value in headers.items()), f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def ok(body: dict) -> bytes:
    """Returns the response of an AWS service."""
    headers = {"content-type": "application/x-amz-json-1.0", "date": formatdate(usegmt=True), "x-amzn-requestid": "0" * 52}
    return message("HTTP/1.1 200 OK", headers, json.dumps(body).encode())


def condition_failed(item: dict) -> bytes:
    """Returns the response of DynamoDB to a write whose condition fails, with the stored item."""
    body = {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "message": "The conditional request failed"}
    headers = {"content-type": "application/x-amz-json-1.0", "date": formatdate(usegmt=True), "x-amzn-requestid": "0" * 52}
    return message("HTTP/1.1 400 Bad Request", headers, json.dumps(body | {"Item": item}).encode())


def defaults(secret: dict) -> dict:
    """Returns the response to each operation that needs no other: tables and queues are empty, and every write succeeds."""
    depth = {"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesNotVisible": "0"}
    return {
        "GetItem": ok({}),
        "BatchGetItem": ok({"Responses": {}, "UnprocessedKeys": {}}),
        "PutItem": ok({}),
        "UpdateItem": ok({}),
        "Query": ok({"Items": [], "Count": 0, "ScannedCount": 0}),
        "GetQueueAttributes": ok({"Attributes": depth}),
        "DescribeEventBus": ok({"Name": "bus"}),
        "GetSecretValue": ok({"Name": "secret", "VersionId": "1", "SecretString": json.dumps(secret)}),
    }


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection of the measured process."""

    def __init__(self, stub):
        self.stub = stub
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            if "transfer-encoding" in headers:
                self.stub.fail("it sends a chunked request, which the stub does not read")
                return
            size = int(headers.get("content-length", 0))
            if len(self.buffer) < end + 4 + size:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + size], self.buffer[end + 4 + size :]
            method, path, _ = first.split(" ")
            self.stub.request(self.transport, method, path, headers, body)


class Process:
    """A function under the stub. Like Lambda, the stub hands over the next event when the last one is answered."""

    def __init__(self, name: str, command: list, environment: dict, secret: dict, log: Path):
        self.name = name
        self.command = command
        self.environment = environment
        self.answers = defaults(secret)
        self.log = log
        self.requests = collections.Counter()
        # Requests of the last run to AWS, as (operation, body), if they are kept.
        self.kept = None
        self.results = []
        self.waiting = None
        self.idle = asyncio.Event()
        self.failure = None
        self.pid = None

    async def start(self):
        """Starts the process, and waits until it asks for its first event. Returns the time that this took, and the CPU time, in ns."""
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: Connection(self), "127.0.0.1", 0)
        address = f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        environment = {name: value.replace("ADDRESS", address) for name, value in self.environment.items()}
        environment |= {"AWS_LAMBDA_RUNTIME_API": address, "AWS_ENDPOINT_URL": f"http://{address}"}
        with self.log.open("wb") as log:
            files = [(os.POSIX_SPAWN_DUP2, log.fileno(), 1), (os.POSIX_SPAWN_DUP2, log.fileno(), 2)]
            # The call returns when the child process executes the program.
            self.pid = os.posix_spawn(self.command[0], self.command, environment, file_actions=files)
        started = time.monotonic_ns()
        self.clock = cpu_clock(self.pid)
        self.end = os.pidfd_open(self.pid)
        loop.add_reader(self.end, self.has_ended)
        await self.until_idle()
        return self.polled_at - started, self.cpu()

    async def until_idle(self):
        self.check()
        try:
            await asyncio.wait_for(self.idle.wait(), SECONDS_MAX)
        except TimeoutError:
            self.fail("it asks for no event")
        self.check()
        # After its request for an event, the process still puts itself to sleep.
        await asyncio.sleep(0.002)

    def check(self):
        """Raises an error if the process has failed, also between two runs."""
        if self.failure:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-5:])
            raise RuntimeError(f"{self.name}: {self.failure}\n{tail}")

    def cpu(self) -> int:
        """Returns the CPU time of the process so far, in ns."""
        return time.clock_gettime_ns(self.clock)

    async def run(self, events: list, keep: bool = False) -> int:
        """Hands over these events, one after another. Returns the CPU time that the process needed for them, in ns."""
        self.check()
        self.events = collections.deque(events)
        self.results = []
        self.requests.clear()
        self.kept = [] if keep else None
        self.idle.clear()
        before = self.cpu()
        self.hand_over()
        await self.until_idle()
        return self.cpu() - before

    def hand_over(self):
        if not self.waiting:
            return
        if not self.events:
            self.idle.set()
            return
        transport, self.waiting = self.waiting, None
        headers = {
            "content-type": "application/json",
            "lambda-runtime-aws-request-id": "00000000-0000-4000-8000-000000000000",
            "lambda-runtime-deadline-ms": str(int(time.time() * 1000) + 10_000),
            "lambda-runtime-invoked-function-arn": f"arn:aws:lambda:{REGION}:123456789012:function:{self.name}",
            "lambda-runtime-trace-id": "Root=1-00000000-000000000000000000000000;Parent=0000000000000000;Sampled=0",
        }
        transport.write(message("HTTP/1.1 200 OK", headers, self.events.popleft()))

    def request(self, transport, method: str, path: str, headers: dict, body: bytes):
        if path.endswith("/invocation/next"):
            self.waiting = transport
            if hasattr(self, "events"):
                self.hand_over()
            else:
                self.polled_at = time.monotonic_ns()
                self.idle.set()
        elif path.endswith("/response"):
            self.results.append(body)
            transport.write(message("HTTP/1.1 202 Accepted", {"content-type": "application/json"}, b'{"status":"OK"}'))
        elif path.endswith("/error"):
            self.fail(f"it reports an error: {body.decode(errors='replace')}")
        else:
            self.aws(transport, headers, body)

    def aws(self, transport, headers: dict, body: bytes):
        operation = headers.get("x-amz-target", "").rpartition(".")[2]
        self.requests[operation] += 1
        if self.kept is not None:
            self.kept.append((operation, json.loads(body)))
        if operation == "SendMessage":
            # The SDK for JavaScript compares the digest.
            digest = hashlib.md5(json.loads(body)["MessageBody"].encode()).hexdigest()
            transport.write(ok({"MessageId": "0" * 36, "MD5OfMessageBody": digest, "SequenceNumber": "1" * 20}))
        elif operation == "PutEvents":
            entries = [{"EventId": "0" * 36} for _ in json.loads(body)["Entries"]]
            transport.write(ok({"FailedEntryCount": 0, "Entries": entries}))
        elif operation in self.answers:
            transport.write(self.answers[operation])
        else:
            self.fail(f"the stub has no answer to {operation or headers}")

    def has_ended(self):
        asyncio.get_running_loop().remove_reader(self.end)
        self.fail("it has ended")

    def fail(self, failure: str):
        # The first failure is the cause of the later ones.
        self.failure = self.failure or failure
        self.idle.set()

    def peak_memory(self) -> int:
        """Returns the largest resident set of the process so far, in bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(peak) * 1024

    async def stop(self):
        if self.pid is None:
            return
        asyncio.get_running_loop().remove_reader(self.end)
        os.close(self.end)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.server.close()
