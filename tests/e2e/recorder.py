"""A proxy in front of an AWS endpoint that records the requests that pass through it."""

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from service_models import Request, from_http

# Headers that belong to one connection.
HOP_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Recorder:
    """The requests so far, and the URL under which the proxy listens."""

    def __init__(self, url: str):
        self.url = url
        self.requests: list[Request] = []
        # Name of the program that runs, for the requests that follow.
        self.sender: str | None = None
        # Texts of answers, and what they are replaced with.
        self.replaced: dict[str, str] = {}

    def of(self, sender: str) -> list[Request]:
        return [request for request in self.requests if request.sender == sender]


@contextmanager
def recorder(endpoint: str):
    """Runs the proxy on a free port of the loopback interface."""
    target = urlsplit(endpoint)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.relay()

        do_GET = do_PUT = do_DELETE = do_POST

        def relay(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            # A webhook to the API of the stack is no request to AWS.
            if not self.path.startswith("/_aws/execute-api/"):
                record.requests.append(from_http(self.command, self.path, dict(self.headers), body, record.sender))
            connection = http.client.HTTPConnection(target.hostname, target.port, timeout=60)
            try:
                headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_HEADERS}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                for text, other in record.replaced.items():
                    content = content.replace(text.encode(), other.encode())
            finally:
                connection.close()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in HOP_HEADERS:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        record = Recorder(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield record
        finally:
            server.shutdown()
