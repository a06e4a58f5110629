"""Signs webhooks as their providers do. It shares nothing with the Rust code, so that each checks the other.

As a program, it copies every webhook in a folder of API Gateway events to another folder, with a new timestamp and signature:

    python3 tools/sign.py events .make/events

The keys are test keys, from keys.json in the first folder. To use the events, store that file with `switchhook providers put`.
"""

import base64
import hashlib
import hmac
import json
import sys
import time
from pathlib import Path
from urllib.parse import parse_qsl


def sign_generic(key: str, body: bytes, now_seconds: int) -> dict:
    digest = hmac.new(key.encode(), f"{now_seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return {"x-webhook-timestamp": str(now_seconds), "x-webhook-signature": f"sha256={digest}"}


def sign_retell(key: str, body: bytes, now_seconds: int) -> dict:
    now_ms = str(now_seconds * 1000)
    digest = hmac.new(key.encode(), body + now_ms.encode(), hashlib.sha256).hexdigest()
    return {"x-retell-signature": f"v={now_ms},d={digest}"}


def sign_twilio(key: str, url: str, body: bytes) -> dict:
    """Signs a form: the webhook URL, followed by the name and the values of each parameter, sorted by name."""
    values_of = {}
    for name, value in parse_qsl(body.decode(), keep_blank_values=True):
        values_of.setdefault(name, set()).add(value)
    text = url + "".join(name + value for name in sorted(values_of) for value in sorted(values_of[name]))
    digest = hmac.new(key.encode(), text.encode(), hashlib.sha1).digest()
    return {"x-twilio-signature": base64.b64encode(digest).decode()}


def sign(provider: str, providers: dict, path_and_query: str, body: bytes, now_seconds: int | None = None) -> dict:
    """Returns the headers that authenticate `body` at `path_and_query`, signed with the first key of the provider."""
    now_seconds = int(time.time()) if now_seconds is None else now_seconds
    key = providers[provider]["keys"][0]
    if provider == "generic":
        return sign_generic(key, body, now_seconds)
    if provider == "retell":
        return sign_retell(key, body, now_seconds)
    if provider == "twilio":
        return sign_twilio(key, providers["twilio"]["public_url"] + path_and_query, body)
    raise ValueError(f"cannot sign webhooks of {provider}: only generic, retell and twilio are supported")


def sign_event(event: dict, providers: dict):
    """Signs an API Gateway event (HTTP API, payload format 2.0) in place."""
    body = event["body"]
    raw = base64.b64decode(body) if event["isBase64Encoded"] else body.encode()
    query = event["rawQueryString"]
    event["headers"] |= sign(event["pathParameters"]["provider"], providers, event["rawPath"] + (f"?{query}" if query else ""), raw)


def main():
    folder, signed = Path(sys.argv[1]), Path(sys.argv[2])
    signed.mkdir(parents=True, exist_ok=True)
    providers = json.loads((folder / "keys.json").read_text())
    for path in sorted(folder.glob("ingress-*.json")):
        event = json.loads(path.read_text())
        sign_event(event, providers)
        (signed / path.name).write_text(json.dumps(event, indent=2, ensure_ascii=False) + "\n")
        print(f"signed {signed / path.name}")


if __name__ == "__main__":
    main()
