"""Tests of the sample receivers: each processes every domain event once, and answers so that EventBridge repeats what it should."""

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import ROOT, base_environment, child_process, free_port, tail, wait_for

# The line of each sample that does the work, and one in its place that fails while a file exists.
SAMPLES = {
    "receiver.py": (
        '    print(event["type"], event["id"], flush=True)\n',
        '    assert not os.path.exists("broken"), "the other system is down"\n',
    ),
    "receiver.mjs": (
        "    console.log(event.type, event.id);\n",
        "    if (existsSync('broken')) throw new Error('the other system is down');\n",
    ),
}
# The line of each sample that waits until the name of a new file is on the disk, and a line before it that fails once while a file exists.
FLUSHES = {
    "receiver.py": (
        "            os.fsync(folder)\n",
        "            if os.path.exists('full'): os.rename('full', 'free'); raise OSError('the disk is full')\n",
    ),
    "receiver.mjs": (
        "    flushed(WAITING, 'r', () => {});\n",
        "    if (existsSync('full')) { renameSync('full', 'free'); throw new Error('the disk is full'); }\n",
    ),
}
KEY, OLD_KEY = "new-key-of-the-test", "old-key-of-the-test"
EVENT = {"schema_version": 1, "id": "appointment:apt_1/7", "type": "appointment.confirmed", "appointment_id": "apt_1"}


class Receiver:
    """A running receiver, and the folder that it works in."""

    def __init__(self, folder: Path, port: int):
        self.folder = folder
        self.url = f"http://127.0.0.1:{port}/events"

    def post(self, body, key: str | None = KEY, header: str = "x-switchhook-key") -> int:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json"} | ({header: key} if key is not None else {})
        request = urllib.request.Request(self.url, data=raw, headers=headers)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as refusal:
            return refusal.code

    def done(self) -> list[str]:
        """Returns the ids of the events that were worked on, as often as that happened. The last line may be half written."""
        *lines, _ = (self.folder / "log").read_text().split("\n")
        return [line.split()[1] for line in lines if line.startswith("appointment.")]

    def expect(self, *ids: str):
        waiting = self.folder / "events" / "waiting"
        wait_for(f"the work on {ids}", lambda: self.done() == list(ids) and not any(waiting.iterdir()), seconds=60, every=0.05)


def interpreter(sample: str) -> str:
    program = {"receiver.py": sys.executable, "receiver.mjs": shutil.which("node")}[sample]
    return program or pytest.skip("node is not installed: the receiver in Node was not tested")


@contextmanager
def running(sample: str, folder: Path, **environment: str):
    """Runs a receiver whose work fails while the file `broken` exists in the folder, and whose disk fails once if there is a file `full`."""
    program = interpreter(sample)
    source = (ROOT / "infra" / sample).read_text()
    for line, failing in (SAMPLES[sample], FLUSHES[sample]):
        assert source.count(line) == 1
        source = source.replace(line, failing + line)
    (folder / sample).write_text(source)
    port = free_port()
    receiver = Receiver(folder, port)
    settings = {"SWITCHHOOK_KEYS": f"{KEY},{OLD_KEY}", "EVENTS_FOLDER": str(folder / "events"), "PORT": str(port), "RETRY_SECONDS": "0.1"}
    log = folder / "log"
    with child_process([program, sample], log, base_environment() | settings | environment, folder) as process:

        def listening():
            assert process.poll() is None, tail(log)
            try:
                return receiver.post(b"", key="wrong") == 401
            except OSError:
                return False

        wait_for(f"{sample} listens", listening, every=0.05)
        yield receiver


@pytest.fixture(params=SAMPLES)
def sample(request):
    return request.param


def test_an_event_that_arrives_twice_is_worked_on_once(sample, tmp_path):
    other = EVENT | {"id": "call-2/1"}
    with running(sample, tmp_path) as receiver:
        assert [receiver.post(event) for event in (EVENT, EVENT)] == [200, 200]
        receiver.expect(EVENT["id"])
        assert [receiver.post(event) for event in (EVENT, other)] == [200, 200]
        receiver.expect(EVENT["id"], "call-2/1")
    with running(sample, tmp_path) as receiver:
        assert receiver.post(EVENT) == 200
        assert receiver.post(EVENT | {"id": "call-3/1"}) == 200
        receiver.expect("call-3/1")


def test_both_keys_of_a_rotation_are_accepted_and_no_other(sample, tmp_path):
    with running(sample, tmp_path) as receiver:
        assert receiver.post(EVENT, OLD_KEY) == 200
        for key in (None, "", "wrong", KEY[:-1], f"{KEY},{OLD_KEY}"):
            assert receiver.post(EVENT | {"id": "forged"}, key) == 401, key
        assert receiver.post(EVENT | {"id": "call-2/1"}) == 200
        receiver.expect(EVENT["id"], "call-2/1")
    with running(sample, tmp_path, SWITCHHOOK_KEYS=f"{KEY},", KEY_HEADER="Authorization") as receiver:
        assert receiver.post(EVENT, None) == receiver.post(EVENT, "", "authorization") == receiver.post(EVENT) == 401
        assert receiver.post(EVENT, header="authorization") == 200


def test_a_key_that_a_comma_makes_short_is_refused_at_the_start(sample, tmp_path):
    settings = {"SWITCHHOOK_KEYS": "abcdefgh,ijklmnopqr", "EVENTS_FOLDER": str(tmp_path), "PORT": str(free_port())}
    command = [interpreter(sample), str(ROOT / "infra" / sample)]
    ended = subprocess.run(command, env=base_environment() | settings, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1 and "fewer than 16 characters" in ended.stderr, ended


@pytest.mark.parametrize("missing", ["SWITCHHOOK_KEYS", "EVENTS_FOLDER", "PORT"])
def test_a_missing_environment_variable_is_named_in_one_line(sample, missing, tmp_path):
    environment = base_environment() | {"SWITCHHOOK_KEYS": KEY, "EVENTS_FOLDER": str(tmp_path), "PORT": str(free_port())}
    del environment[missing]
    command = [interpreter(sample), str(ROOT / "infra" / sample)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stderr) == (1, f"the environment variable {missing} is missing\n")


def test_what_can_never_be_read_is_refused_so_that_it_is_not_repeated(sample, tmp_path):
    """EventBridge repeats 401, 407, 409, 429 and 5xx, and nothing else."""
    with running(sample, tmp_path) as receiver:
        for body in (b"", b"{", b"null", b"[]", b"7", {"id": "call-1/1"}, EVENT | {"id": 7}):
            assert receiver.post(body) == 400, body
        assert receiver.post(EVENT | {"schema_version": 2}) == 422
        assert receiver.post(b" " * (1024 * 1024 + 1)) == 413
        assert receiver.post(EVENT) == 200
        receiver.expect(EVENT["id"])


def test_work_that_failed_is_done_again_without_another_delivery_and_after_a_restart(sample, tmp_path):
    broken = tmp_path / "broken"
    broken.touch()
    with running(sample, tmp_path) as receiver:
        assert receiver.post(EVENT) == 200
        wait_for("the work fails", lambda: "will be done again" in (tmp_path / "log").read_text(), every=0.05)
        assert receiver.done() == []
        broken.unlink()
        receiver.expect(EVENT["id"])
        broken.touch()
        assert receiver.post(EVENT | {"id": "call-2/1"}) == 200
    broken.unlink()
    with running(sample, tmp_path) as receiver:
        receiver.expect("call-2/1")


def test_an_event_that_cannot_be_moved_is_moved_later_and_stops_no_other(sample, tmp_path):
    done, away = tmp_path / "events" / "done", tmp_path / "away"
    with running(sample, tmp_path) as receiver:
        done.rename(away)
        assert receiver.post(EVENT) == 200
        wait_for("the move fails", lambda: "will be done again" in (tmp_path / "log").read_text(), every=0.05)
        away.rename(done)
        assert receiver.post(EVENT | {"id": "call-2/1"}) == 200
        wait_for("both are done", lambda: len(list(done.iterdir())) == 2, every=0.05)
        assert set(receiver.done()) == {EVENT["id"], "call-2/1"}


def test_a_listing_of_the_waiting_events_that_fails_is_repeated(tmp_path):
    """Node ends its process instead, so whoever watches that starts it again."""
    waiting, away = tmp_path / "events" / "waiting", tmp_path / "away"
    (tmp_path / "broken").touch()
    with running("receiver.py", tmp_path) as receiver:
        assert receiver.post(EVENT) == 200
        wait_for("the work fails", lambda: "will be done again" in (tmp_path / "log").read_text(), every=0.05)
        waiting.rename(away)
        wait_for("the listing fails", lambda: "could not be listed" in (tmp_path / "log").read_text(), every=0.05)
        (tmp_path / "broken").unlink()
        away.rename(waiting)
        receiver.expect(EVENT["id"])


def test_an_event_that_cannot_be_stored_is_repeated_by_eventbridge(sample, tmp_path):
    with running(sample, tmp_path) as receiver:
        # A file in place of the folder: not even root can write into it.
        (tmp_path / "events" / "waiting").rmdir()
        (tmp_path / "events" / "waiting").touch()
        assert receiver.post(EVENT) == 500


def test_an_event_whose_flush_failed_is_worked_on_after_its_repetition(sample, tmp_path):
    with running(sample, tmp_path) as receiver:
        (tmp_path / "full").touch()
        assert [receiver.post(EVENT) for _ in range(2)] == [500, 200]
        receiver.expect(EVENT["id"])
