"""Sample receiver of domain events outside AWS: an HTTP server in Python that processes each event once. Copy it.

EventBridge posts each domain event to it, as infra/forward.yaml says, waits five seconds for the response, and repeats what failed for
24 hours. So the server only stores the event and answers, and the work follows. Files are enough for that, and need no other package:
`waiting` holds the events to process, and `done` those that were processed. An event is stored under the hash of its id, so one
that arrives again is recognised. If the work fails, the file stays and the work is done again later. If the process dies between the
work and the move of the file, or the move fails, the work is done twice. If the other system accepts idempotency keys, pass it the id.

Environment variables:
    SWITCHHOOK_KEYS     The value of the parameter ForwardKey. During a change of the key, the old and the new one, separated by a comma.
    EVENTS_FOLDER       Folder of the files, which must survive a restart.
    PORT                Port on the loopback interface. Let a web server with a public certificate lead https requests to it.
    KEY_HEADER          Header that carries the key (x-switchhook-key by default).
    RETRY_SECONDS       Longest pause before failed work is done again (60 by default). The arrival of another event ends it.

Responses, and what EventBridge does with them:
    200                 The event is stored, or was stored before.
    400, 413, 422       It can never be stored. EventBridge sends it to the dead-letter queue at once.
    401                 The key is missing or wrong. EventBridge repeats the request, so correct the key within 24 hours.
    500                 The event could not be stored now. EventBridge repeats the request.

Run one process only: two would do the same work. Delete files in `done` once they are older than CallRetentionDays, because
`switchhook republish` can publish events again until then.
"""

import hashlib
import hmac
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCHEMA_VERSION = 1
# Domain events have some hundred bytes, and EventBridge takes less than 1 MB.
BODY_BYTES_MAX = 1024 * 1024

for name in ("SWITCHHOOK_KEYS", "EVENTS_FOLDER", "PORT"):
    if not os.environ.get(name):
        sys.exit(f"the environment variable {name} is missing")

# An empty key would let everybody in, and a short one can be guessed.
KEYS = [key for key in os.environ["SWITCHHOOK_KEYS"].split(",") if key]
if any(len(key) < 16 for key in KEYS):
    sys.exit("SWITCHHOOK_KEYS has a key of fewer than 16 characters: a comma separates two keys")
KEY_HEADER = os.environ.get("KEY_HEADER", "x-switchhook-key")
RETRY_SECONDS = float(os.environ.get("RETRY_SECONDS", "60"))
WAITING = Path(os.environ["EVENTS_FOLDER"]) / "waiting"
DONE = Path(os.environ["EVENTS_FOLDER"]) / "done"

# Held while a file is looked for and written or moved.
files = threading.Lock()
stored = threading.Event()


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        try:
            status = self.receive()
        except OSError as error:
            print(f"an event could not be stored: {error}", file=sys.stderr)
            status = 500
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def receive(self) -> int:
        length = self.headers.get("Content-Length", "")
        body = self.rfile.read(min(int(length), BODY_BYTES_MAX + 1)) if length.isdecimal() else b""
        if not is_key(self.headers.get(KEY_HEADER, "")):
            return 401
        if len(body) > BODY_BYTES_MAX:
            return 413
        try:
            event = json.loads(body)
            event_id, version = event["id"], event["schema_version"]
        except (ValueError, TypeError, KeyError):
            return 400
        if not isinstance(event_id, str):
            return 400
        if version != SCHEMA_VERSION:
            return 422
        store(event_id, body)
        return 200

    def log_message(self, *_):
        """Logs no requests."""


def is_key(presented: str) -> bool:
    """Compares with each key in constant time."""
    found = [hmac.compare_digest(key.encode(), presented.encode()) for key in KEYS]
    return any(found)


def store(event_id: str, body: bytes):
    name = hashlib.sha256(event_id.encode()).hexdigest()
    with files:
        if (DONE / name).exists():
            return
        if not (WAITING / name).exists():
            # A reader must never see half of a file.
            unfinished = WAITING / f"{name}.new"
            with unfinished.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(WAITING / name)
        # The new name is on the disk only after this, which may have failed the first time.
        folder = os.open(WAITING, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    stored.set()


def work_off():
    """Processes events until the process ends. An error must not end it: events would be accepted and never processed."""
    while True:
        stored.clear()
        failed = False
        try:
            waiting = [path for path in WAITING.iterdir() if path.suffix != ".new"]
        except OSError as error:
            print(f"the waiting events could not be listed: {error}", file=sys.stderr, flush=True)
            waiting, failed = [], True
        for path in waiting:
            try:
                work(json.loads(path.read_bytes()))
                with files:
                    path.rename(DONE / path.name)
            except Exception as error:
                print(f"the work failed and will be done again: {error!r}", file=sys.stderr, flush=True)
                failed = True
        stored.wait(RETRY_SECONDS if failed else None)


def work(event: dict):
    """Replace this with your own work, for example to send a mail or to update another system. An exception repeats it later."""
    print(event["type"], event["id"], flush=True)


if __name__ == "__main__":
    WAITING.mkdir(parents=True, exist_ok=True)
    DONE.mkdir(parents=True, exist_ok=True)
    threading.Thread(target=work_off, daemon=True).start()
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver).serve_forever()
