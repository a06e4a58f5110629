"""The Lambda runtime interface emulator of the SAM CLI, which runs one function with the sample events.

The functions use the resources of the deployed stack.
"""

import json
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import samcli

from harness import ARCHITECTURE, PROVIDERS, ROOT, child_process, free_port, tail, wait_for
from sign import sign_event

EMULATOR = Path(samcli.__file__).parent / "local" / "rapid" / f"aws-lambda-rie-{ARCHITECTURE}"


def sample(name: str) -> dict:
    event = json.loads((ROOT / "events" / f"{name}.json").read_text())
    if name.startswith("ingress-"):
        # Like `make sign`, because the timestamps in the repository are old.
        sign_event(event, PROVIDERS)
    return event


@contextmanager
def emulated(cloud, stack, function: str, program: Path, folder: Path):
    """Runs the program of a function in the emulator with the environment of the deployed one. Yields a function that invokes it."""
    (deployed,) = [
        each
        for page in cloud.client("lambda").get_paginator("list_functions").paginate()
        for each in page["Functions"]
        if each["FunctionName"].startswith(f"{stack.name}-{function.capitalize()}Function")
    ]
    port = free_port()
    environment = cloud.environment | deployed["Environment"]["Variables"] | {
        "AWS_ENDPOINT_URL": cloud.endpoint,
        "AWS_LAMBDA_FUNCTION_NAME": deployed["FunctionName"],
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(deployed["MemorySize"]),
        "AWS_LAMBDA_FUNCTION_TIMEOUT": str(deployed["Timeout"]),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
    }
    log = folder / f"{function}.log"
    # fmt: off
    command = [str(EMULATOR), "--runtime-interface-emulator-address", f"127.0.0.1:{port}",
               "--runtime-api-address", f"127.0.0.1:{free_port()}", str(program)]
    # fmt: on
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def invoke(event):
        url = f"http://127.0.0.1:{port}/2015-03-31/functions/function/invocations"

        def post():
            try:
                with opener.open(urllib.request.Request(url, data=json.dumps(event).encode()), timeout=30) as answer:
                    return answer.read().decode() or "null"
            except ConnectionRefusedError:
                return None
            except urllib.error.URLError as failure:
                if isinstance(failure.reason, ConnectionRefusedError):
                    return None
                raise

        answer = json.loads(wait_for("the emulator listens", post, seconds=30))
        assert not (isinstance(answer, dict) and "errorType" in answer), f"{answer}\n{tail(log)}"
        return answer

    with child_process(command, log, environment, folder):
        yield invoke
