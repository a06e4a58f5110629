"""Measures the release binaries of the functions, beside the floor of the SDK and a small function for Node.js (`make bench`).

    python3 benches/bench.py FOLDER

FOLDER has a folder with a `bootstrap` for each function, for `floor` and for `fold`. The results are printed as Markdown, and nothing
is written. docs/performance.md explains them.
"""

import asyncio
import base64
import contextlib
import functools
import io
import json
import math
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from lambda_stub import REGION, Process, condition_failed, ok

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from sign import sign  # noqa: E402

KEYS = json.loads((ROOT / "events" / "keys.json").read_text())
PEER = ROOT / "benches" / "peer" / "main.mjs"
# `make bench` installs the SDK of the peer here, if npm is there.
PEER_FOLDER = ROOT / ".make" / "peer"

FUNCTIONS = ["ingress", "consumer", "relay", "scheduler", "dialer", "reconciler", "api"]
# One more round, the first, is not counted: Node.js compiles its code while it runs.
ROUNDS = 5
INVOCATIONS_PER_ROUND = 400
STARTS = 15
DEMO_CALLS = 200

# Defaults of the parameters in template.yaml. The stub takes any name for a table or a queue.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret",
    # A function on AWS always has a session token, which is as long as this.
    "AWS_SESSION_TOKEN": "t" * 900,
    "AWS_REGION": REGION,
    "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
    "AWS_LAMBDA_FUNCTION_VERSION": "1",
    "AWS_LAMBDA_LOG_GROUP_NAME": "group",
    "AWS_LAMBDA_LOG_STREAM_NAME": "stream",
    "STACK_NAME": "bench",
    "INBOX_TABLE": "inbox",
    "CALLS_TABLE": "calls",
    "INDEX_SHARDS": "4",
    "INDEX_NUMBERS": "true",
    "QUEUE_URL": "http://ADDRESS/123456789012/events.fifo",
    "DLQ_URL": "http://ADDRESS/123456789012/events-dlq.fifo",
    "DIAL_QUEUE_URL": "http://ADDRESS/123456789012/dial.fifo",
    "DUE_QUEUE_URL": "http://ADDRESS/123456789012/due",
    "REPAIR_QUEUE_URL": "http://ADDRESS/123456789012/repair.fifo",
    "EVENT_BUS": "bus",
    "WEBHOOK_KEYS_SECRET_ID": "webhook-keys",
    "DIAL_ACCOUNTS_SECRET_ID": "dial-accounts",
    "INBOX_RETENTION_DAYS": "30",
    "CALL_RETENTION_DAYS": "400",
    "INACTIVITY_TIMEOUT_SECONDS": "4500",
    "OUTCOME_PROVIDERS": "retell,vapi,elevenlabs,generic",
    "MAX_RECEIVE_COUNT": "20",
    "BLOCK_ON_REQUEST": "true",
    "DIAL_RATES": "*=1",
    "DIALER_MAX_CONCURRENCY": "30",
    "RETRY_ATTEMPTS_MAX": "3",
    "RETRY_DELAY_SECONDS": "300",
    "RETRY_DELAY_MAX_SECONDS": "3600",
    "RETELL_KEY": KEYS["retell"]["keys"][0],
}
# Debian has each certificate twice: in this bundle, and in a file of its own. The TLS client would decode both, in 2.4 ms. Amazon Linux,
# the system of Lambda, has a bundle alone.
if Path("/etc/ssl/certs/ca-certificates.crt").is_file():
    ENVIRONMENT["SSL_CERT_FILE"] = "/etc/ssl/certs/ca-certificates.crt"


# --- events ----------------------------------------------------------------------------------------------------------

# A conversation, repeated until the body of the webhook has 5 KB.
TURNS = [
    ("agent", "Good morning, this is the practice of Doctor Lindqvist. Am I speaking with Ms Okafor?"),
    ("user", "Yes, that's me. I was about to call you, because my train is late again."),
    ("agent", "I am calling about your check-up on Thursday at a quarter past nine. Can you still come?"),
    ("user", "Thursday works. Could we make it half past, so that I can drop off the children first?"),
    ("agent", "Half past nine is free. I have moved the appointment, and you will get a text message."),
    ("user", "Wonderful, thank you. Shall I bring the letter from the hospital?"),
    ("agent", "Please do, and the list of what you take at the moment. Is there anything else?"),
    ("user", "No, that was all. Goodbye, and have a nice day."),
]


def retell_body(number: int) -> bytes:
    """Returns the body of Retell's webhook about the end of a call, of about 5 KB. A third of it is the text of the conversation."""
    turns = TURNS[: 5 + number % 3]
    words = [
        {"role": role, "content": text, "words": [{"word": word, "start": at / 4 + number, "end": at / 4 + number + 0.2} for at, word in enumerate(text.split())]}
        for role, text in turns
    ]
    now = int(time.time() * 1000)
    call = {
        "call_id": f"call_{number:032x}",
        "call_type": "phone_call",
        "agent_id": "agent_5c1d2e7f9a",
        "agent_version": 3,
        "call_status": "ended",
        "direction": "outbound",
        "from_number": "+15550199",
        "to_number": f"+1555{number:07}",
        "start_timestamp": now - 61_000,
        "end_timestamp": now - 1_000,
        "duration_ms": 60_000,
        "disconnection_reason": "user_hangup",
        "metadata": {"appointment_id": f"appt_{number}"},
        "transcript": "".join(f"{role.capitalize()}: {text}\n" for role, text in turns),
        "transcript_object": words,
        "public_log_url": f"https://logs.example/{number:032x}/public.log",
    }
    return json.dumps({"event": "call_ended", "call": call}, separators=(",", ":")).encode()


def generic_body(number: int, event_type: str = "RINGING") -> bytes:
    event = {"event_id": f"evt_{number}_{event_type}", "call_id": f"call_{number}", "event_type": event_type, "timestamp": int(time.time() * 1000)}
    return json.dumps(event).encode()


def webhook(provider: str, body: bytes) -> bytes:
    """Returns the event that ingress gets from API Gateway for a signed webhook."""
    event = json.loads((ROOT / "events" / f"ingress-{provider}.json").read_text())
    path = f"/webhooks/{provider}"
    event |= {"body": body.decode(), "headers": {"content-type": "application/json", "user-agent": "sample"} | sign(provider, KEYS, path, body)}
    return json.dumps(event).encode()


def with_wrong_signature(event: bytes) -> bytes:
    changed = json.loads(event)
    changed["body"] = changed["body"].replace("user_hangup", "user_hangUp")
    return json.dumps(changed).encode()


def batch(messages: list) -> bytes:
    """Returns the event that the consumer gets from SQS for messages that ingress sent."""
    now = str(int(time.time() * 1000))

    def record(number: int, message: dict) -> dict:
        return {
            "messageId": f"00000000-0000-4000-8000-{number:012}",
            "receiptHandle": "r" * 300,
            "body": message["MessageBody"],
            "attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": now,
                "SequenceNumber": f"{number:020}",
                "MessageGroupId": message["MessageGroupId"],
                "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "MessageDeduplicationId": message["MessageDeduplicationId"],
                "ApproximateFirstReceiveTimestamp": now,
            },
            "messageAttributes": {},
            "md5OfBody": "0" * 32,
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:123456789012:events.fifo",
            "awsRegion": REGION,
        }

    return json.dumps({"Records": [record(number, message) for number, message in enumerate(messages)]}).encode()


def stream_record(item: dict) -> bytes:
    """Returns the event that the relay gets from the stream for a row that was written."""
    event = json.loads((ROOT / "events" / "relay-batch.json").read_text())
    event["Records"][0]["dynamodb"]["NewImage"] = item
    return json.dumps(event).encode()


def sweep_work() -> bytes:
    """Returns the event by which a worker of the reconciler sweeps shard 0."""
    now = int(time.time() * 1000)
    work = {"schema_version": 1, "kind": "sweep", "shard": 0, "read_at": now, "stop_at": now + 3_600_000, "workers_before": 0}
    event = json.loads(batch([{"MessageBody": json.dumps(work), "MessageGroupId": "sweep#0", "MessageDeduplicationId": "sweep#0"}]))
    event["Records"][0]["eventSourceARN"] = f"arn:aws:sqs:{REGION}:123456789012:repair.fifo"
    return json.dumps(event).encode()


def swept(messages: list, rows: list) -> dict:
    """Returns the answers that a worker of the sweep gets if one minute has the events of these messages, and these rows contain them."""
    minute = int(time.time()) // 60 - 2
    position = {"M": {"minute": {"N": str(minute)}}}
    cursor = {"event_id": {"S": "sweep:cursor"}, "minute": {"N": str(minute)}, "left": {"M": {"0": position}}}
    events = [json.loads(each["MessageBody"])["event"] for each in messages]
    items = [
        {"event_id": {"S": each["event_id"]}, "call_id": {"S": each["call_id"]}, "received_at": {"N": str(minute * 60_000)}}
        for each in events
    ]
    return {
        "GetItem": ok({"Item": cursor}),
        "Query": ok({"Items": items, "Count": len(items), "ScannedCount": len(items)}),
        "BatchGetItem": ok({"Responses": {"calls": rows}, "UnprocessedKeys": {}}),
    }


def sample(name: str) -> bytes:
    return (ROOT / "events" / f"{name}.json").read_bytes()


# --- cases -----------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """One kind of event of one function, and what a measurement of it found."""

    function: str
    name: str
    events: list
    # Webhooks or messages in one event.
    per_event: int = 1
    answers: dict = field(default_factory=dict)
    is_right: callable = lambda _: True
    invocations: int = INVOCATIONS_PER_ROUND
    cpu: list = field(default_factory=list)
    requests: dict = field(default_factory=dict)
    write_units: int = 0


def answers_status(status: int):
    return lambda answer: answer.get("statusCode") == status


def folds_all(answer: dict) -> bool:
    return answer == {"batchItemFailures": []}


def item_size(item: dict) -> int:
    """Returns the size of an item by the rules of DynamoDB, in bytes."""

    def size(value: dict) -> int:
        (kind, content), *_ = value.items()
        match kind:
            case "S":
                return len(content.encode())
            case "B":
                return len(base64.b64decode(content))
            case "N":
                return math.ceil(len(content.strip("-0.")) / 2) + 1
            case "L":
                return 3 + sum(1 + size(each) for each in content)
            case "M":
                return 3 + item_size(content) + len(content)
            case _:
                return 1

    return sum(len(name.encode()) + size(value) for name, value in item.items())


async def kept_requests(process: Process, events: list, operation: str) -> list:
    """Hands over events and returns the bodies of the requests of one operation that they cause."""
    await process.run(events, keep=True)
    return [body for name, body in process.kept if name == operation]


async def make_cases(ingress: Process, consumer: Process) -> list:
    """Makes the cases. The messages and rows in them are those that ingress and the consumer write."""
    retell = [webhook("retell", retell_body(number)) for number in range(50)]
    generic = [webhook("generic", generic_body(number)) for number in range(50)]
    words = ["CALL_STARTED", "RINGING", "ANSWERED", "USER_CONFIRMED", "ENDED"]
    (stored, *_) = await kept_requests(ingress, retell[:1], "PutItem")
    of_calls = await kept_requests(ingress, generic[:10], "SendMessage")
    of_calls_later = [webhook("generic", generic_body(number, "ANSWERED")) for number in range(10)]
    of_calls_later = await kept_requests(ingress, of_calls_later, "SendMessage")
    of_one = [webhook("generic", generic_body(1, word)) for word in words]
    of_one = await kept_requests(ingress, of_one, "SendMessage")
    if len(of_one) != len(words):
        raise RuntimeError(f"ingress sent {len(of_one)} messages for {len(words)} events")
    ringing = [{**of_one[1], "MessageBody": of_one[1]["MessageBody"].replace("evt_1_RINGING", f"evt_1_RINGING_{again}")} for again in range(47)]
    (first_row,) = await kept_requests(consumer, [batch(of_one[:1])], "PutItem")
    (row,) = await kept_requests(consumer, [batch(of_one)], "PutItem")
    ended_row = {"GetItem": ok({"Item": row["Item"]})}
    (long_row,) = await kept_requests(consumer, [batch([*of_one, *ringing[1:46]])], "PutItem")
    long_row = {"GetItem": ok({"Item": long_row["Item"]})}
    rows = [put["Item"] for put in await kept_requests(consumer, [batch(of_calls)], "PutItem")]
    rows = {"BatchGetItem": ok({"Responses": {"calls": rows}, "UnprocessedKeys": {}})}
    of_hundred = [webhook("generic", generic_body(number, word)) for number in range(100) for word in words]
    of_hundred = await kept_requests(ingress, of_hundred, "SendMessage")
    by_call = [batch(of_hundred[first : first + len(words)]) for first in range(0, len(of_hundred), len(words))]
    hundred_rows = [put["Item"] for put in await kept_requests(consumer, by_call, "PutItem")]
    sweep = swept(of_hundred[:: len(words)], hundred_rows)
    accepted, refused = answers_status(200), answers_status(401)
    return [
        Case("ingress", "Retell, 5 KB, accepted", retell, is_right=accepted),
        Case("ingress", "Retell, 5 KB, duplicate", retell[:1], answers={"PutItem": condition_failed(stored["Item"])}, is_right=accepted),
        Case("ingress", "Retell, 5 KB, wrong signature", [with_wrong_signature(each) for each in retell], is_right=refused),
        Case("ingress", "generic, 0.1 KB, accepted", generic, is_right=accepted),
        Case("consumer", "10 events of a new call", [batch([*of_one, *ringing[1:6]])], per_event=10, is_right=folds_all),
        Case("consumer", "10 events of 10 new calls", [batch(of_calls)], per_event=10, is_right=folds_all),
        Case("consumer", "10 events of 10 calls with 1", [batch(of_calls_later)], answers=rows, per_event=10, is_right=folds_all),
        Case("consumer", "1 event of a call with 5", [batch(ringing[1:2])], answers=ended_row, is_right=folds_all),
        Case("consumer", "1 event of a call with 50", [batch(ringing[46:])], answers=long_row, is_right=folds_all),
        Case("consumer", "1 duplicate of a call with 5", [batch(of_one[1:2])], answers=ended_row, is_right=folds_all),
        Case("relay", "row with new domain events", [stream_record(first_row["Item"])], is_right=folds_all),
        Case("scheduler", "nothing is due", [sample("scheduler-tick")]),
        Case("dialer", "two claims that are void", [sample("dialer-batch")], per_event=2, is_right=lambda answer: answer is None),
        # Its tables are empty, so each run is a first one, which sweeps the last hour.
        Case("reconciler", "a first run, nothing is due", [sample("reconciler-tick")], invocations=10),
        Case("reconciler", "sweep of 100 calls with 5 events", [sweep_work()], answers=sweep, per_event=100, is_right=lambda answer: answer is None),
        Case("api", "read of a call that nobody knows", [sample("api-call")], is_right=answers_status(404)),
        Case("floor", "PutItem and SendMessage alone", retell, is_right=accepted),
        Case("peer, bare requests", "Retell, 5 KB, accepted", retell, is_right=accepted),
        Case("peer, AWS SDK v3", "Retell, 5 KB, accepted", retell, is_right=accepted),
    ]


def invocations(events: list, count: int) -> list:
    return (events * math.ceil(count / len(events)))[:count]


async def measure(cases: list, processes: dict):
    """Measures every case in rounds. A round has all cases, so that a change of the machine's speed concerns all alike."""
    for round_number in range(ROUNDS + 1):
        for case in cases:
            process = processes[case.function]
            usual = dict(process.answers)
            process.answers |= case.answers
            count = case.invocations
            cpu = await process.run(invocations(case.events, count))
            for result in process.results:
                if not case.is_right(json.loads(result)):
                    raise RuntimeError(f"{case.function}, {case.name}: wrong answer: {result.decode()}")
            if round_number:
                case.cpu.append(cpu / count / case.per_event / 1000)
            else:
                case.requests = {name: requests / count / case.per_event for name, requests in process.requests.items()}
                puts = await kept_requests(process, case.events[:1], "PutItem")
                case.write_units = sum(math.ceil(item_size(put["Item"]) / 1024) for put in puts) / case.per_event
            process.answers = usual


# --- parts of the output ---------------------------------------------------------------------------------------------


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def table(header: list, rows: list):
    print("|", " | ".join(header), "|")
    print("|", " | ".join("---" if column == 0 else "---:" for column in range(len(header))), "|")
    for row in rows:
        print("|", " | ".join(map(str, row)), "|")
    print()


def heading(text: str):
    print(f"### {text}\n", flush=True)


def zipped(path: Path) -> int:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as code:
        code.write(path, path.name)
    return len(archive.getvalue())


def print_requests(cases: list):
    heading("Requests per event")
    rows = []
    for case in cases:
        requests = ", ".join(f"{count:g} {name}" for name, count in sorted(case.requests.items())) or "none"
        rows.append([f"{case.function}: {case.name}", requests, f"{case.write_units:g}"])
    table(["path", "requests", "write units"], rows)


def print_cpu(cases: list):
    heading("CPU per event")
    cases = [case for case in cases if case.function in FUNCTIONS]
    rows = [[f"{case.function}: {case.name}", number(statistics.median(case.cpu)), f"{number(min(case.cpu))} to {number(max(case.cpu))}"] for case in cases]
    table(["path", "µs, median", "rounds"], rows)


def print_ratios(cases: list):
    heading("Ingress, the floor of the SDK, and Node.js")
    by_function = {case.function: case for case in reversed(cases)}
    ingress = by_function["ingress"]
    rows = []
    for name, case in sorted(by_function.items(), key=lambda entry: entry[0] != "ingress"):
        if name in FUNCTIONS and name != "ingress":
            continue
        # Rounds are compared one by one, because the speed of the machine may change between them.
        ratio = statistics.median(other / own for other, own in zip(case.cpu, ingress.cpu, strict=True))
        rows.append([f"{name}: {case.name}", number(statistics.median(case.cpu)), f"{ratio:.2f}"])
    table(["", "µs of CPU", "times ingress"], rows)


async def print_starts(commands: dict, environment: dict, folder: Path, processes: dict):
    heading("Start, memory and size")
    rows = []
    for name, command in commands.items():
        starts = []
        for _ in range(STARTS):
            process = make_process(name, command, environment, folder)
            starts.append(await process.start())
            await process.stop()
        wall, cpu = (statistics.median(each) / 1e6 for each in zip(*starts, strict=True))
        binary = Path(command[0])
        is_function = name in FUNCTIONS or name == "floor"
        size = [f"{binary.stat().st_size / 1e6:.2f}", f"{zipped(binary) / 1e6:.2f}"] if is_function else ["", ""]
        rows.append([name, f"{wall:.1f}", f"{cpu:.1f}", f"{processes[name].peak_memory() / 1e6:.1f}", *size])
    table(["", "exec to first poll, ms", "of it CPU, ms", "peak memory, MB", "binary, MB", "zip, MB"], rows)


def print_folds(program: Path):
    heading("Fold")
    lines = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    cases = [line.split("\t") for line in lines]
    table(["folded", "µs"], [[name, f"{int(nanoseconds) / 1000:.2f}"] for nanoseconds, name in cases])


def print_local_cloud(tool: Path):
    """Runs the demo, which sends webhooks through all functions over the local cloud."""
    if not tool.is_file():
        print(f"No end-to-end measurement: {tool} is missing.\n")
        return
    heading("End to end in the local cloud")
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    output = subprocess.run([tool, "demo", "--calls", str(DEMO_CALLS), "--json"], check=True, stdout=subprocess.PIPE).stdout
    wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    calls = json.loads(output)["calls"]
    table(["calls", "s", "s of CPU", "ms of CPU per call"], [[calls, f"{wall:.1f}", f"{cpu:.1f}", f"{cpu / calls * 1e3:.1f}"]])


# --- run -------------------------------------------------------------------------------------------------------------


def make_process(name: str, command: list, environment: dict, folder: Path) -> Process:
    secret = {"retell": {"dial": {"api_key": "test-api-key-of-retell", "agent_id": "agent"}}} if name in ("dialer", "reconciler") else KEYS
    sender = {"PEER_SENDER": "sdk" if "SDK" in name else "bare"}
    return Process(name, command, environment | sender | {"AWS_LAMBDA_FUNCTION_NAME": name.split(",")[0]}, secret, folder / f"{name}.log")


def peers() -> dict:
    """Returns the commands of the peer, with and without the SDK, as far as Node.js and the SDK are there."""
    node = shutil.which("node")
    if not node:
        print("Node.js is missing, so nothing is compared with it.\n")
        return {}
    version = subprocess.run([node, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    commands = {"peer, bare requests": [node, str(PEER)]}
    # Node.js looks for packages beside the program.
    installed = PEER_FOLDER / PEER.name
    if (PEER_FOLDER / "node_modules").is_dir():
        shutil.copy(PEER, installed)
        commands["peer, AWS SDK v3"] = [node, str(installed)]
        lock = json.loads((PEER_FOLDER / "package-lock.json").read_text())["packages"]
        print(f"Node.js {version}, AWS SDK for JavaScript {lock['node_modules/@aws-sdk/client-dynamodb']['version']}.\n")
    else:
        print(f"Node.js {version}, without the AWS SDK for JavaScript, because npm could not install it.\n")
    return commands


async def main():
    built = Path(sys.argv[1])
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, Linux {platform.release().split('-')[0]}\n")
    programs = {name: [str(built / name / "bootstrap")] for name in [*FUNCTIONS, "floor"]}
    commands = {name: command for name, command in programs.items() if Path(command[0]).is_file()} | peers()
    with tempfile.TemporaryDirectory(prefix="switchhook-bench-") as scratch, contextlib.suppress(asyncio.CancelledError):
        folder = Path(scratch)
        new = functools.partial(make_process, environment=ENVIRONMENT, folder=folder)
        processes = {name: new(name, command) for name, command in commands.items()}
        try:
            for process in processes.values():
                await process.start()
            cases = await make_cases(processes["ingress"], processes["consumer"])
            cases = [case for case in cases if case.function in processes]
            await measure(cases, processes)
            print_requests(cases)
            print_cpu(cases)
            print_ratios(cases)
            await print_starts(commands, ENVIRONMENT, folder, processes)
        finally:
            for process in processes.values():
                await process.stop()
    if (built / "fold" / "bootstrap").is_file():
        print_folds(built / "fold" / "bootstrap")
    print_local_cloud(ROOT / "target" / "debug" / "switchhook")


if __name__ == "__main__":
    asyncio.run(main())
